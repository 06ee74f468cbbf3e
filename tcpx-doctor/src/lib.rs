//! Says what is wrong with a machine, an environment or a transfer, and what to type to cure it.
