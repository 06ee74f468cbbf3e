//! What additions to the table have in common: each is a data symbol that *is* a struct of
//! functions, any of which may be NULL, and of use when none is.

/// Declares the struct that a symbol is, and its functions, each known to be there.
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
            /// `None` when one of them is NULL: a part of it is of no use.
            pub(crate) fn from_struct(addition: $name) -> Option<Self> {
                let $name { $($member),* } = addition;
                Some(Self { $($member: $member?),* })
            }
        }
    };
}

pub(crate) use addition;
