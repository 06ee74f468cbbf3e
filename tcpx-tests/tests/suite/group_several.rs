//! Operations of groups whose ranges lie on several devices, at either end. Ordinary memory stands
//! in for GPUs.

mod ending;
mod events;
mod groups;
mod moving;
mod preparing;
pub(crate) mod served;
