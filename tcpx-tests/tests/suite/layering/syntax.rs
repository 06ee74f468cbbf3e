//! Facts that pieces of syntax state by themselves: paths, the type of an `impl` block, and the
//! methods of that type that the block calls. A call on a field, or on another value of the type,
//! does not count.

use proc_macro2::{Delimiter, Ident, TokenTree};
use syn::{Expr, Item, UnOp};

/// A function in an `impl` block, or a call of one by a block of the same type.
#[derive(Debug)]
pub(crate) struct Method {
    pub(crate) module: usize,
    /// The type, as the block names it in this module.
    pub(crate) of: Vec<String>,
    pub(crate) name: String,
    pub(crate) line: usize,
}

/// The type of an `impl` block.
pub(crate) fn self_type(item: &Item) -> Option<Vec<String>> {
    let Item::Impl(item) = item else { return None };
    let syn::Type::Path(path) = &*item.self_ty else { return None };
    Some(segments(&path.path))
}

pub(crate) fn segments(path: &syn::Path) -> Vec<String> {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

/// Whether a method is called on `self`, and not on what it holds or returns.
pub(crate) fn is_self(receiver: &Expr) -> bool {
    match receiver {
        Expr::Path(path) => path.path.is_ident("self"),
        Expr::Paren(inner) => is_self(&inner.expr),
        Expr::Reference(inner) => is_self(&inner.expr),
        Expr::Unary(inner) if matches!(inner.op, UnOp::Deref(_)) => is_self(&inner.expr),
        _ => false,
    }
}

/// The method that a path names, within a block of `of`: `Self::method`, or `Type::method`.
pub(crate) fn named_by(path: &[String], of: &[String]) -> Option<String> {
    let [.., owner, name] = path else { return None };
    (owner == "Self" || of.last() == Some(owner)).then(|| name.clone())
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

/// The methods that are called on `self` among these tokens, groups left out too.
pub(crate) fn called_on_self(tokens: &[TokenTree]) -> impl Iterator<Item = &Ident> {
    tokens.windows(4).filter_map(|four| match four {
        [TokenTree::Ident(receiver), TokenTree::Punct(dot), TokenTree::Ident(name), after]
            if receiver == "self" && dot.as_char() == '.' && opens_a_call(after) =>
        {
            Some(name)
        }
        _ => None,
    })
}

/// Whether a method's name stands before this: `(…)`, or the first colon of `::<…>(…)`.
fn opens_a_call(token: &TokenTree) -> bool {
    match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Parenthesis,
        TokenTree::Punct(punct) => punct.as_char() == ':',
        TokenTree::Ident(_) | TokenTree::Literal(_) => false,
    }
}
