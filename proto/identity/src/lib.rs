//! Keys at rest: whom an end is, and whom it knows.
//!
//! * [`mod@file`]: the static keys of an executor or harness in a file, perhaps behind a [`passphrase`].
//! * [`keyring`]: those keys in memory, as the channel uses them.
//! * [`known`]: the keys of executors that a harness has met.
//! * [`authorized`]: the keys of harnesses that an executor serves.
//!
//! What the files mean to the protocol stands in `proto/README.md`, "Identities".

pub mod authorized;
mod disk;
pub mod file;
pub mod keyring;
pub mod known;
pub mod passphrase;
mod seal;
pub mod time;

pub use authorized::AuthorizedHarnesses;
pub use disk::FileError;
pub use file::{IdentityError, IdentityFile};
pub use keyring::Keyring;
pub use known::{KnownError, KnownExecutors, Pin};
pub use passphrase::Passphrase;
