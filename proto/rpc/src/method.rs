//! Typed parameters and results of every method, one module a family.
//!
//! A member marked `Option` may be absent or null. Unknown members are ignored, which is how the contract grows.

pub mod capability;
pub mod config;
pub mod environment;
pub mod fs;
pub mod http;
pub mod identity;
pub mod initialize;
pub mod network;
pub mod process;
pub mod session;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

/// A call: its name and what goes each way.
pub trait Method {
    /// The name on the wire.
    const NAME: &'static str;
    /// What the caller sends.
    type Params: Serialize + DeserializeOwned + Send;
    /// What the callee answers.
    type Result: Serialize + DeserializeOwned + Send;
}

/// News: their name and content.
pub trait Notification {
    /// The name on the wire.
    const NAME: &'static str;
    /// What the sender tells.
    type Params: Serialize + DeserializeOwned + Send;
}

/// The result `{}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {}

/// Reads null as the default.
fn null_default<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Declares the type that carries a call's name, parameters and result.
macro_rules! method {
    ($(#[$doc:meta])* $name:ident, $wire:literal, $params:ty => $result:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;
        impl $crate::method::Method for $name {
            const NAME: &'static str = $wire;
            type Params = $params;
            type Result = $result;
        }
    };
}

/// Declares the type that carries the name and content of news.
macro_rules! notification {
    ($(#[$doc:meta])* $name:ident, $wire:literal, $params:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;
        impl $crate::method::Notification for $name {
            const NAME: &'static str = $wire;
            type Params = $params;
        }
    };
}

use {method, notification};
