//! Test that the pages of `docs/c-api` leave nothing of the header out.

use std::collections::BTreeSet;

use crate::toolchain::root;

fn pages() -> String {
    let folder = root().join("docs/c-api");
    let pages = std::fs::read_dir(folder).unwrap().map(|page| page.unwrap().path());
    pages.map(|page| std::fs::read_to_string(page).unwrap()).collect()
}

/// Returns the names that begin with one of the library's prefixes.
fn names(text: &str) -> BTreeSet<&str> {
    text.split(|character: char| !character.is_ascii_alphanumeric() && character != '_')
        .filter(|word| word.starts_with("tcpx_") || word.starts_with("TCPX_"))
        .collect()
}

#[test]
fn every_name_of_the_header_is_on_a_page() {
    let header = std::fs::read_to_string(root().join("include/tcpx_p2p.h")).unwrap();
    let pages = pages();
    let is_api = |name: &&str| *name != "TCPX_P2P_H" && !name.starts_with("TCPX_VERSION");
    let names_of_header: BTreeSet<&str> = names(&header).into_iter().filter(is_api).collect();
    assert!(names_of_header.len() > 80, "the header was not read");
    let missing: Vec<_> = names_of_header.difference(&names(&pages)).copied().collect();
    assert!(missing.is_empty(), "{missing:?} are on no page");
}

#[test]
fn every_option_is_on_its_page_with_its_variable() {
    let page = std::fs::read_to_string(root().join("docs/c-api/session.md")).unwrap();
    let header = std::fs::read_to_string(root().join("include/tcpx_p2p.h")).unwrap();
    let (_, from) = header.split_once("typedef struct tcpx_session_options {").unwrap();
    let (members, _) = from.split_once("} tcpx_session_options;").unwrap();
    let mut count = 0;
    for member in members.lines().filter_map(|line| line.trim().strip_suffix(';')) {
        let member = member.rsplit([' ', '*']).next().unwrap();
        assert!(page.contains(&format!("`{member}`")), "{member} is not on the page");
        count += 1;
    }
    assert_eq!(count, 31);
    for variable in names(members).into_iter().filter(|name| name.starts_with("TCPX_")) {
        assert!(page.contains(variable), "{variable} is not on the page");
    }
}

/// Returns a text with one blank wherever it has blanks or ends of lines.
fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn signatures_on_the_page_are_those_of_the_cpp_header() {
    let page = std::fs::read_to_string(root().join("docs/c-api/cpp.md")).unwrap();
    let header = std::fs::read_to_string(root().join("include/tcpx_p2p.hpp")).unwrap();
    let header = on_one_line(&header);
    let (_, signatures) = page.split_once("## Signatures").unwrap();
    let blocks = signatures.split("```cpp\n").skip(1);
    let blocks: String = blocks.map(|block| block.split_once("```").unwrap().0).collect();
    let signatures: Vec<_> = blocks.lines().map(|line| line.trim_end_matches(';')).collect();
    let wrong: Vec<_> = signatures.iter().filter(|line| !header.contains(**line)).collect();
    assert!(wrong.is_empty(), "the header has other signatures: {wrong:#?}");

    // A method is a name in front of a bracket, at the beginning of a class's line.
    let methods = header.split("*/").filter_map(|text| text.split_once('('));
    let methods = methods.map(|(before, _)| before.rsplit([' ', '*', '&']).next().unwrap());
    let methods = methods.filter(|name| name.starts_with(|first: char| first.is_ascii_lowercase()));
    let listed = |name: &&str| blocks.contains(&format!("{name}("));
    assert!(methods.filter(listed).collect::<BTreeSet<_>>().len() > 60, "the page is too short");
}
