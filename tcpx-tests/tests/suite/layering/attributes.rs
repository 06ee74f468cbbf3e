//! Attributes of an item: whether it is compiled at all, and where.

use std::collections::BTreeSet;

use syn::punctuated::Punctuated;
use syn::{Attribute, Item, Meta, Token};

/// Whether this keeps its item out of the product.
pub(crate) fn is_for_tests(attribute: &Attribute) -> bool {
    let path = attribute.path();
    path.is_ident("test")
        || path.is_ident("cfg")
            && attribute.parse_args().is_ok_and(|condition| holds(&condition) == Some(false))
}

/// Whether a condition holds in a build that is no test. `None` when that depends on more.
fn holds(condition: &Meta) -> Option<bool> {
    if condition.path().is_ident("test") {
        return Some(false);
    }
    let Meta::List(list) = condition else { return None };
    let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()?;
    let parts: BTreeSet<Option<bool>> = parts.iter().map(holds).collect();
    let end = |decides: bool| {
        if parts.contains(&Some(decides)) {
            Some(decides)
        } else if parts.contains(&None) {
            None
        } else {
            Some(!decides)
        }
    };
    match list.path.get_ident()?.to_string().as_str() {
        "all" => end(false),
        "any" => end(true),
        "not" => end(true).map(|holds| !holds),
        _ => None,
    }
}

/// The path in `#[path = "…"]`.
pub(crate) fn path_attribute(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(meta) = &attribute.meta else { return None };
    match &meta.value {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. })
            if meta.path.is_ident("path") =>
        {
            Some(path.value())
        }
        _ => None,
    }
}

pub(crate) fn item_attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
