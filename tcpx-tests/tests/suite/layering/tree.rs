//! The modules of one library or program: which file each is in, which names it has, which paths it
//! writes, and which methods its `impl` blocks define and call. Code for tests is left out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree, Visibility};

use super::attributes::{is_for_tests, item_attributes, path_attribute};
use super::syntax::{Method, called_on_self, is_self, named_by, paths, segments, self_type};

/// How a file is read; `None` when there is none at this path.
type Reader<'a> = &'a dyn Fn(&Path) -> Option<String>;

/// All modules, with the crate's root first.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) modules: Vec<Module>,
    pub(crate) files: Vec<PathBuf>,
    pub(crate) path_uses: Vec<PathUse>,
    /// Types that the whole crate may name.
    pub(crate) types: Vec<Type>,
    /// Functions of `impl` blocks, those of traits left out.
    pub(crate) methods: Vec<Method>,
    /// What `impl` blocks, those of traits too, may call of their own type.
    pub(crate) calls: Vec<Method>,
    /// Macros by name, with the module that defines each. Their names follow rules of their own.
    pub(crate) macros: BTreeMap<String, usize>,
}

/// One module, in a file of its own or not.
#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) parent: usize,
    pub(crate) file: usize,
    pub(crate) names: BTreeMap<String, Vec<NameTarget>>,
    /// Paths before a `::*`.
    pub(crate) globs: Vec<Vec<String>>,
}

/// What a name in a module stands for. It may stand for several things, a function and a module.
#[derive(Clone, Debug)]
pub(crate) enum NameTarget {
    Module(usize),
    Item,
    /// What this path says, read in the same module.
    Import(Vec<String>),
}

/// A path, as it is written in the source.
#[derive(Debug)]
pub(crate) struct PathUse {
    pub(crate) module: usize,
    pub(crate) path: Vec<String>,
    pub(crate) line: usize,
    /// It is the path of a macro call.
    pub(crate) is_macro: bool,
}

/// A struct, enum, union, trait or type alias that is `pub` or `pub(crate)`.
#[derive(Debug)]
pub(crate) struct Type {
    pub(crate) name: String,
    pub(crate) module: usize,
    pub(crate) line: usize,
}

impl Tree {
    /// Reads the tree whose root is this file.
    pub(crate) fn read(root: &Path, reader: Reader<'_>) -> Self {
        let mut tree = Self::default();
        let folder = root.parent().expect("a root lies in a folder").to_owned();
        tree.read_file(0, root, &folder, reader);
        tree
    }

    /// Adds a module in a file of its own. `folder` is where its children lie.
    fn read_file(
        &mut self,
        parent: usize,
        path: &Path,
        folder: &Path,
        reader: Reader<'_>,
    ) -> usize {
        let text = reader(path).unwrap_or_else(|| panic!("{} is not there", path.display()));
        let parsed =
            syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        self.files.push(path.to_owned());
        let file = self.files.len() - 1;
        self.add_module(parent, file, folder, &parsed.items, reader)
    }

    fn add_module(
        &mut self,
        parent: usize,
        file: usize,
        folder: &Path,
        items: &[Item],
        reader: Reader<'_>,
    ) -> usize {
        let names = BTreeMap::new();
        self.modules.push(Module { parent, file, names, globs: Vec::new() });
        let module = self.modules.len() - 1;
        let mut collector = Collector { tree: self, module, folder, reader, depth: 0, of: None };
        for item in items {
            collector.visit_item(item);
        }
        module
    }

    fn name(&mut self, module: usize, name: String, target: NameTarget) {
        self.modules[module].names.entry(name).or_default().push(target);
    }
}

/// Walks over the items of one module.
struct Collector<'a> {
    tree: &'a mut Tree,
    module: usize,
    folder: &'a Path,
    reader: Reader<'a>,
    /// Items around the present one: 1 for those of the module itself.
    depth: usize,
    /// The type of the `impl` block around the present item.
    of: Option<Vec<String>>,
}

impl Collector<'_> {
    fn path_use(&mut self, path: Vec<String>, at: Span, is_macro: bool) {
        let line = at.start().line;
        self.tree.path_uses.push(PathUse { module: self.module, path, line, is_macro });
    }

    /// Records a path that is written in code, which may be a call too.
    fn path(&mut self, path: Vec<String>, at: Span) {
        if let Some(name) = self.of.as_ref().and_then(|of| named_by(&path, of)) {
            self.call(name, at);
        }
        self.path_use(path, at, false);
    }

    fn call(&mut self, name: String, at: Span) {
        self.tree.calls.extend(self.method(name, at));
    }

    /// A method of the type of the block around.
    fn method(&self, name: String, at: Span) -> Option<Method> {
        let line = at.start().line;
        self.of.clone().map(|of| Method { module: self.module, of, name, line })
    }

    fn name(&mut self, name: String, target: NameTarget) {
        self.tree.name(self.module, name, target);
    }

    /// A type, trait, function or constant of the module itself.
    fn item(&mut self, ident: &syn::Ident) {
        if self.depth == 1 {
            self.name(ident.to_string(), NameTarget::Item);
        }
    }

    fn type_item(&mut self, ident: &syn::Ident, visibility: &Visibility) {
        self.item(ident);
        let is_wide = match visibility {
            Visibility::Public(_) => true,
            Visibility::Restricted(restricted) => restricted.path.is_ident("crate"),
            Visibility::Inherited => false,
        };
        if is_wide && self.depth == 1 {
            let (name, line) = (ident.to_string(), ident.span().start().line);
            self.tree.types.push(Type { name, module: self.module, line });
        }
    }

    fn methods(&mut self, items: &[syn::ImplItem]) {
        for item in items {
            if let syn::ImplItem::Fn(item) = item
                && !item.attrs.iter().any(is_for_tests)
            {
                let ident = &item.sig.ident;
                self.tree.methods.extend(self.method(ident.to_string(), ident.span()));
            }
        }
    }

    fn child(&mut self, item: &syn::ItemMod) {
        let name = item.ident.to_string();
        let inside = self.folder.join(&name);
        let child = match &item.content {
            Some((_, items)) => {
                let file = self.tree.modules[self.module].file;
                self.tree.add_module(self.module, file, &inside, items, self.reader)
            }
            None => {
                let (path, folder) = self.file_of(item, &inside);
                self.tree.read_file(self.module, &path, &folder, self.reader)
            }
        };
        self.name(name, NameTarget::Module(child));
    }

    /// The file of `mod x;`, and the folder of its children.
    fn file_of(&self, item: &syn::ItemMod, inside: &Path) -> (PathBuf, PathBuf) {
        if let Some(path) = item.attrs.iter().find_map(path_attribute) {
            let file = &self.tree.files[self.tree.modules[self.module].file];
            let path = file.parent().expect("a file lies in a folder").join(path);
            let folder = path.parent().expect("a file lies in a folder").to_owned();
            return (path, folder);
        }
        let flat = inside.with_extension("rs");
        let path = if (self.reader)(&flat).is_some() { flat } else { inside.join("mod.rs") };
        (path, inside.to_owned())
    }

    fn imports(&mut self, tree: &UseTree, before: &[String]) {
        let with = |ident: &syn::Ident| match ident.to_string() {
            // `use a::b::{self}` names b.
            name if name == "self" && !before.is_empty() => before.to_vec(),
            name => [before, &[name]].concat(),
        };
        match tree {
            UseTree::Path(path) => self.imports(&path.tree, &with(&path.ident)),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.imports(tree, before);
                }
            }
            UseTree::Glob(glob) => {
                self.path_use(before.to_vec(), glob.star_token.span, false);
                self.tree.modules[self.module].globs.push(before.to_vec());
            }
            UseTree::Name(leaf) => {
                let path = with(&leaf.ident);
                let name = path.last().cloned().unwrap_or_default();
                self.import(name, path, leaf.ident.span());
            }
            UseTree::Rename(leaf) => {
                self.import(leaf.rename.to_string(), with(&leaf.ident), leaf.ident.span());
            }
        }
    }

    /// An import inside a function counts as the module's: seldom wrong, and then an edge too many.
    fn import(&mut self, name: String, path: Vec<String>, at: Span) {
        self.path_use(path.clone(), at, false);
        if path != [name.clone()] {
            self.name(name, NameTarget::Import(path));
        }
    }

    /// Paths among the tokens of a macro, and calls. Which of the paths are types and which values
    /// does not matter.
    fn tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for path in paths(&tokens) {
            self.path(path.iter().map(ToString::to_string).collect(), path[0].span());
        }
        for name in called_on_self(&tokens) {
            self.call(name.to_string(), name.span());
        }
        for token in tokens {
            if let TokenTree::Group(group) = token {
                self.tokens(group.stream());
            }
        }
    }
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if item_attributes(item).iter().any(is_for_tests) {
            return;
        }
        self.depth += 1;
        let around = std::mem::replace(&mut self.of, self_type(item));
        match item {
            Item::Mod(item) => self.child(item),
            Item::Use(item) if item.leading_colon.is_none() => self.imports(&item.tree, &[]),
            Item::Use(_) | Item::ExternCrate(_) => {}
            other => {
                match other {
                    Item::Struct(item) => self.type_item(&item.ident, &item.vis),
                    Item::Enum(item) => self.type_item(&item.ident, &item.vis),
                    Item::Union(item) => self.type_item(&item.ident, &item.vis),
                    Item::Trait(item) => self.type_item(&item.ident, &item.vis),
                    Item::Type(item) => self.type_item(&item.ident, &item.vis),
                    Item::Const(item) => self.item(&item.ident),
                    Item::Static(item) => self.item(&item.ident),
                    Item::Fn(item) => self.item(&item.sig.ident),
                    Item::Impl(item) if item.trait_.is_none() => self.methods(&item.items),
                    Item::Macro(syn::ItemMacro { ident: Some(ident), .. }) => {
                        self.item(ident);
                        self.tree.macros.insert(ident.to_string(), self.module);
                    }
                    _ => {}
                }
                visit::visit_item(self, other);
            }
        }
        self.of = around;
        self.depth -= 1;
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() && path.segments.len() > 1 {
            self.path(segments(path), path.segments[0].ident.span());
        }
        visit::visit_path(self, path);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if is_self(&call.receiver) {
            self.call(call.method.to_string(), call.method.span());
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.path_use(segments(&call.path), call.path.segments[0].ident.span(), true);
        self.tokens(call.tokens.clone());
    }

    /// `pub(super)` names nothing that it uses.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        let attributes: &[Attribute] = match item {
            syn::ImplItem::Const(item) => &item.attrs,
            syn::ImplItem::Fn(item) => &item.attrs,
            syn::ImplItem::Type(item) => &item.attrs,
            syn::ImplItem::Macro(item) => &item.attrs,
            _ => &[],
        };
        if !attributes.iter().any(is_for_tests) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if !field.attrs.iter().any(is_for_tests) {
            visit::visit_field(self, field);
        }
    }

    fn visit_field_value(&mut self, value: &'ast syn::FieldValue) {
        if !value.attrs.iter().any(is_for_tests) {
            visit::visit_field_value(self, value);
        }
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        if !variant.attrs.iter().any(is_for_tests) {
            visit::visit_variant(self, variant);
        }
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if !arm.attrs.iter().any(is_for_tests) {
            visit::visit_arm(self, arm);
        }
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if !local.attrs.iter().any(is_for_tests) {
            visit::visit_local(self, local);
        }
    }
}
