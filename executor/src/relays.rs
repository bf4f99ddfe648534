//! The relays that a registration names.

use rendezvous_transport::dial::Dialer;
use rendezvous_transport::registry::Registration;

/// Leaves out the relays that cannot be dialled from here, as long as one remains: they are no reason to stay away from the
/// others. If none can be dialled all stay, and dialling the first says why.
pub(crate) fn leave_out_unusable(registration: &mut Registration, dialer: &Dialer) {
    let mut named = vec![registration.url.clone()];
    named.append(&mut registration.alternatives.clone());
    let mut usable = Vec::with_capacity(named.len());
    for (number, url) in named.into_iter().enumerate() {
        match dialer.check(&url) {
            Ok(()) => usable.push(url),
            Err(error) => {
                let error = crate::remote::chain(&error);
                tracing::warn!(number, error, "the registry names a relay that cannot be used");
            }
        }
    }
    let mut usable = usable.into_iter();
    if let Some(first) = usable.next() {
        registration.url = first;
        registration.alternatives = usable.collect();
    }
}

#[cfg(test)]
mod tests {
    use rendezvous_transport::connector::Connector;
    use rendezvous_transport::policy::ClearText;
    use rendezvous_transport::tls::Trust;
    use rendezvous_wire::id::RegistrationId;
    use rendezvous_wire::secret::Secret;

    use super::*;

    fn left(named: &[&str]) -> Vec<String> {
        let mut urls = named.iter().map(|url| Secret::new(*url));
        let mut registration = Registration {
            id: RegistrationId::new("reg").expect("id"),
            url: urls.next().expect("a relay"),
            alternatives: urls.collect(),
        };
        let connector = Connector::direct(Trust::new(None).expect("trust"));
        leave_out_unusable(&mut registration, &Dialer::new(connector, ClearText::Loopback));
        let urls = std::iter::once(registration.url).chain(registration.alternatives);
        urls.map(|url| url.expose().to_owned()).collect()
    }

    #[test]
    fn what_can_be_dialled_stays_in_its_order() {
        let (one, two) = ("wss://one.example/", "ws://127.0.0.1:1/");
        for (unusable, why) in [
            ("ws://far.example/", "clear text"),
            ("https://far.example/", "another scheme"),
            ("wss://a_b!.example/", "no name for a certificate"),
            ("", "no URL"),
        ] {
            assert_eq!(left(&[one, unusable, two]), [one, two], "{why}");
            assert_eq!(left(&[unusable, one]), [one], "{why}");
            assert_eq!(left(&[unusable]), [unusable], "{why}");
        }
    }
}
