//! The rendezvous relay: routes frames it cannot read.
