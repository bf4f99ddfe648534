//! What every socket of a long connection gets.

use std::time::Duration;

use socket2::SockRef;
use tokio::net::TcpStream;

/// What the kernel holds and has not sent, in bytes, before a socket counts as full: it can no longer be passed by what is
/// more urgent.
const UNSENT: u32 = 256 * 1024;

/// Makes small writes go out at once, keeps the rest with the program as long as it can be put in order there, and lets the kernel give a connection up whose peer has acknowledged nothing, or taken
/// nothing, for `user_timeout`.
///
/// Keepalive of TCP is not needed: who holds a connection for long sends pings over it.
pub fn prepare(tcp: &TcpStream, user_timeout: Duration) {
    // Fails only for a socket that is dead already; the next read finds that out.
    let _ = tcp.set_nodelay(true);
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        let socket = SockRef::from(tcp);
        let _ = socket.set_tcp_user_timeout(Some(user_timeout));
        let _ = socket.set_tcp_notsent_lowat(UNSENT);
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = (SockRef::from(tcp), user_timeout);
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_kernel_knows_how_long_to_wait_and_how_much_to_hold() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let address = listener.local_addr().expect("address");
        let tcp = TcpStream::connect(address).await.expect("connect");
        let wanted = Duration::from_secs(77);
        prepare(&tcp, wanted);
        let socket = SockRef::from(&tcp);
        assert_eq!(socket.tcp_user_timeout().expect("option"), Some(wanted));
        assert_eq!(socket.tcp_notsent_lowat().expect("option"), UNSENT);
        assert!(tcp.nodelay().expect("option"));
    }
}
