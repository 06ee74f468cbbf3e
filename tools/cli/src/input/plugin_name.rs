//! Name of a plugin, as the user gives it.

use tcpx_core::PluginChoice;

/// Parses the value of `--plugin`. An empty value is an error: a variable in it may be unset.
pub(crate) fn plugin_name(text: &str) -> Result<PluginChoice, String> {
    match text.trim() {
        "" => {
            Err("must be auto, soft, devmem or the path of a file; is a variable in it unset?"
                .into())
        }
        name => name.parse().map_err(|never| match never {}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_name_is_refused() {
        assert_eq!(plugin_name("soft"), Ok(PluginChoice::Soft));
        assert_eq!(plugin_name("devmem"), Ok(PluginChoice::Devmem));
        assert_eq!(plugin_name("/x.so"), Ok(PluginChoice::Path("/x.so".into())));
        assert!(plugin_name("").unwrap_err().contains("auto, soft, devmem or"));
    }
}
