//! The registry: environments, credentials, authorizations and tickets.
//!
//! * [`store`]: everything remembered, in SQLite or PostgreSQL.
//! * [`api`]: the three calls of the stock protocol, and `/v1` for management.
//! * [`control`]: the control connection of each relay, embedded or not.
//! * [`ticket`]: the signed capabilities inside relay URLs.
//! * [`server`]: puts them together behind one listener.

pub mod address;
pub mod api;
pub mod app;
pub mod cli;
pub mod clock;
pub mod control;
pub mod credential;
pub mod housekeeping;
pub mod rate;
pub mod server;
pub mod store;
pub mod ticket;
pub mod token;
pub mod view;
