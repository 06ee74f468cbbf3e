//! Plugin tables that a file exports, by its symbols. No file is loaded.

use std::fs;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSymbol};

/// Prefixes of the names of tables; a version follows.
const TABLES: [&str; 2] = ["ncclNetPlugin_v", "ncclCollNetPlugin_v"];

/// Error of reading the symbols of a file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SymbolsError {
    #[error("cannot read {path}: {error}")]
    Read { path: PathBuf, error: std::io::Error },
    #[error("{path} is no ELF file: {error}")]
    Format { path: PathBuf, error: object::Error },
}

/// Returns the names of the tables that the file defines, sorted.
pub(crate) fn plugin_tables(path: &Path) -> Result<Vec<String>, SymbolsError> {
    let bytes =
        fs::read(path).map_err(|error| SymbolsError::Read { path: path.to_owned(), error })?;
    let file = object::File::parse(bytes.as_slice())
        .map_err(|error| SymbolsError::Format { path: path.to_owned(), error })?;
    let defined = file.dynamic_symbols().filter(ObjectSymbol::is_definition);
    let names = defined.filter_map(|symbol| symbol.name().ok().map(str::to_owned));
    let mut tables: Vec<_> = names.filter(|name| is_table(name)).collect();
    tables.sort();
    tables.dedup();
    Ok(tables)
}

/// Returns whether the file contains this text.
pub(crate) fn mentions(path: &Path, text: &str) -> bool {
    let has = |bytes: Vec<u8>| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    fs::read(path).is_ok_and(has)
}

fn is_table(name: &str) -> bool {
    let versions = TABLES.iter().filter_map(|table| name.strip_prefix(table));
    versions.into_iter().any(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn only_names_of_tables_are_tables() {
        for table in ["ncclNetPlugin_v7", "ncclNetPlugin_v10", "ncclCollNetPlugin_v6"] {
            assert!(is_table(table), "{table}");
        }
        for other in ["ncclNetPlugin_v", "ncclNetPlugin_v7x", "my_ncclNetPlugin_v7", "ncclTuner_v2"]
        {
            assert!(!is_table(other), "{other}");
        }
    }

    #[test]
    fn a_program_has_no_tables_and_a_text_is_no_program() {
        let program = std::env::current_exe().expect("own path");
        assert_eq!(plugin_tables(&program).expect("an ELF file"), Vec::<String>::new());
        let mut text = tempfile::NamedTempFile::with_suffix(".txt").expect("a temporary file");
        text.write_all(b"ncclNetPlugin_v7").expect("it can be written");
        let refused = plugin_tables(text.path()).expect_err("no ELF file").to_string();
        assert!(refused.contains(".txt is no ELF file"), "{refused}");
        let missing = plugin_tables(Path::new("/nonexistent.so")).expect_err("no file").to_string();
        assert!(missing.starts_with("cannot read /nonexistent.so"), "{missing}");
    }
}
