//! What a peer may tell, and where it lies.
