//! Tests of the plugin that is as the original.

mod library;
