//! Common code of the additions to the table. Each addition is a data symbol that *is* a struct of
//! functions. Any of them may be NULL, and the addition is used only if none is.

/// Declares the struct of a symbol, and the struct of its functions that are known to be set.
macro_rules! addition {
    (
        $(#[$about_struct:meta])* struct $name:ident;
        $(#[$about_entries:meta])* entries $entries:ident;
        { $($member:ident: $function:ident),* $(,)? }
    ) => {
        $(#[$about_struct])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            $(
                #[doc = concat!("See [`", stringify!($function), "`].")]
                pub $member: Option<$function>,
            )*
        }

        $(#[$about_entries])*
        #[derive(Clone, Copy, Debug)]
        #[allow(missing_docs, reason = "each member is documented at its type")]
        pub struct $entries {
            $(pub $member: $function,)*
        }

        impl $entries {
            /// Returns the functions, or `None` when one of them is NULL: a part of the addition
            /// has no use.
            pub(crate) fn from_struct(addition: $name) -> Option<Self> {
                let $name { $($member),* } = addition;
                Some(Self { $($member: $member?),* })
            }
        }
    };
}

pub(crate) use addition;
