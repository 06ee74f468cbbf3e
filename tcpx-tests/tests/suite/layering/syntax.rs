//! What pieces of syntax say by themselves: the names of a path, and the paths among tokens.

use proc_macro2::{Ident, TokenTree};

pub(crate) fn segments(path: &syn::Path) -> Vec<String> {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

/// Paths of more than one name among the tokens of a macro, but for those in groups among them.
pub(crate) fn paths(tokens: &[TokenTree]) -> Vec<Vec<Ident>> {
    let mut paths = Vec::new();
    let mut path: Vec<Ident> = Vec::new();
    let mut colons = 0;
    for token in tokens {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == ':' => {
                colons += 1;
                continue;
            }
            TokenTree::Ident(ident) if colons == 2 && !path.is_empty() => path.push(ident.clone()),
            // Two colons in front of all: a path from another crate.
            TokenTree::Ident(_) if colons == 2 => {}
            TokenTree::Ident(ident) => {
                paths.push(std::mem::replace(&mut path, vec![ident.clone()]))
            }
            TokenTree::Group(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {
                paths.push(std::mem::take(&mut path));
            }
        }
        colons = 0;
    }
    paths.push(path);
    paths.retain(|path| path.len() > 1);
    paths
}
