//! Tests of what is installed, as others find and use it.

mod install;
