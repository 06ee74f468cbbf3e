//! Sessions over what is strictest in everything: a plugin that is as inconvenient, harmful and
//! fatal as the original and has its name, and GPU memory that the CPU must not touch. Every byte
//! arrives, or an error of ours says in time why not. No process ends by a signal, by an exit that
//! is not its own, or never.
//!
//! - `combination`: processes over it
//! - `mesh`: eight sessions, each connected with each
//! - `losses`: peers that are killed
//! - `held_up`: calls of the plugin that never return
//! - `daemon`: an RxDM that hangs, closes or was killed while they connect
//! - `bounce`: bounce buffers that are too small, packets that are

mod bounce;
mod combination;
mod daemon;
mod held_up;
mod losses;
mod mesh;
