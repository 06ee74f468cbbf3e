//! Moving bytes: posted work, and the lanes that carry its chunks.

pub(crate) mod batch;
pub(crate) mod descriptor_splitter;
pub(crate) mod gather;
pub(crate) mod ledger;
pub(crate) mod recv_lane;
pub(crate) mod send_lane;
pub(crate) mod staging;
pub(crate) mod stripe;
pub(crate) mod window;
