use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use rendezvous_wire::secret::Secret;
use uuid::Uuid;

/// Registrations whose relay URLs are remembered; the oldest goes first. An executor whose URL is gone registers again.
pub const MAX_PLACES: usize = 64;

/// Relay URLs by the name that they have here. The name is as secret as the URL: whoever knows it can use it.
#[derive(Debug, Default)]
pub(super) struct Places {
    kept: Mutex<VecDeque<(String, Vec<Secret>)>>,
}

impl Places {
    /// Remembers the URLs of a registration; gives their name.
    pub(super) fn keep(&self, urls: Vec<Secret>) -> String {
        let name = Uuid::new_v4().simple().to_string();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == MAX_PLACES {
            kept.pop_front();
        }
        kept.push_back((name.clone(), urls));
        name
    }

    pub(super) fn find(&self, name: &str) -> Option<Vec<Secret>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let place = kept.iter().find(|(known, _)| known == name);
        place.map(|(_, urls)| urls.clone())
    }

    /// Forgets URLs whose ticket the relay does not take any more.
    pub(super) fn forget(&self, name: &str) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(known, _)| known != name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_the_last_ones() {
        let places = Places::default();
        let urls = |text: &str| vec![Secret::new(text)];
        let first = places.keep(urls("ws://first"));
        let second = places.keep(urls("ws://second"));
        assert_eq!(places.find(&first), Some(urls("ws://first")));
        for _ in 0..MAX_PLACES - 1 {
            places.keep(urls("ws://more"));
        }
        assert!(places.find(&first).is_none());
        assert_eq!(places.find(&second), Some(urls("ws://second")));
        places.forget(&second);
        assert!(places.find(&second).is_none());
        assert!(places.find("unknown").is_none());
    }
}
