//! The registry: environments, credentials, authorizations and tickets.
