use rendezvous_identity::Pin;
use rendezvous_wire::fingerprint::Fingerprint;

use super::{KeyError, KeyPolicy, KnownExecutors, Place, on_disk, own_key};
use crate::connect::registry_client;
use crate::error::{AttemptError, HarnessError};
use crate::options::Options;

/// Asks the registry for the key of the executor, which must be connected, and remembers it in `known` if it has this
/// fingerprint, whatever was known before. Nothing is sent to the executor.
///
/// # Errors
///
/// The registry names another key or none, or the file cannot be changed.
pub async fn accept(options: &Options, known: &KnownExecutors, fingerprint: Fingerprint) -> Result<Pin, HarnessError> {
    let place = Place::new(options.registry.as_str(), &options.environment, &options.executors);
    let own = own_key(options.identity.as_ref());
    let asked = registry_client(options)?
        .connect(&options.environment, own.public())
        .await;
    let bundle = asked.map_err(AttemptError::from)?;
    let shown = bundle.executor_key.fingerprint();
    if shown != fingerprint {
        let expected = fingerprint;
        return Err(AttemptError::from(KeyError::Unexpected { place, expected, shown }).into());
    }
    let pin = place.pin(&bundle.executor_key);
    let (known, accepted) = (known.clone(), pin.clone());
    let noted = on_disk(move || {
        let before = known.find(&pin.registry, &pin.environment)?;
        known.note(&pin, before.as_ref().map(|before| &before.key))
    });
    noted.await.map_err(KeyError::from).map_err(AttemptError::from)?;
    Ok(accepted)
}

impl KeyPolicy {
    /// Remembers keys in this file.
    pub fn known_in(path: impl Into<std::path::PathBuf>) -> Self {
        Self {
            known: Some(KnownExecutors::new(path)),
            ..Self::default()
        }
    }
}
