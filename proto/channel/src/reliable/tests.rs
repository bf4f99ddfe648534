//! What the state of reliable streams is searched for.

mod model;
