//! The JSON-RPC envelope, and the parameters of the calls with the richest shapes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rendezvous_rpc::Message;
use rendezvous_rpc::envelope::{decode_params, write_error, write_notification, write_request, write_response};
use rendezvous_rpc::method::{Method, fs, initialize, process};

fuzz_target!(|data: &[u8]| {
    let message = match Message::decode(data) {
        Ok(message) => message,
        Err(error) => {
            // What a peer is told about it must be writable.
            write_error(Vec::new(), &(-1i64).into(), &error.to_rpc()).expect("an error can be written");
            return;
        }
    };
    let mut again = Vec::new();
    match &message {
        Message::Request(request) => {
            write_request(
                &mut again,
                &request.id,
                &request.method,
                &request.params,
                request.trace.as_ref(),
            )
        }
        Message::Notification(notification) => {
            write_notification(&mut again, &notification.method, &notification.params)
        }
        Message::Response(response) => write_response(&mut again, &response.id, &response.result),
        Message::Error(error) => write_error(&mut again, &error.id, &error.error),
    }
    .expect("a decoded message can be written");
    let again = Message::decode(&again).expect("a written message decodes");
    assert_eq!(std::mem::discriminant(&again), std::mem::discriminant(&message));

    if let Message::Request(request) = message {
        let params = request.params.as_deref();
        let _ = decode_params::<<initialize::Initialize as Method>::Params>(params);
        let _ = decode_params::<<process::Start as Method>::Params>(params);
        let _ = decode_params::<<process::Write as Method>::Params>(params);
        let _ = decode_params::<<process::Read as Method>::Params>(params);
        let _ = decode_params::<<fs::WriteFile as Method>::Params>(params);
        let _ = decode_params::<<fs::Walk as Method>::Params>(params);
    }
});
