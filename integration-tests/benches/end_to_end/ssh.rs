//! An SSH server of our own on loopback, and ways to it.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command as Blocking;

use anyhow::{Result, ensure};
use rendezvous_integration_tests::{Command, Context, Program, binaries, wait};

use crate::measure::Way;

const AES: &str = "aes256-gcm@openssh.com";

pub(crate) struct Server {
    port: u16,
    _server: Program,
}

impl Server {
    /// Starts the server with new keys; only the key made here may come in.
    pub(crate) async fn start(cx: &Context) -> Result<Self> {
        let server = binaries::tool("sshd", "openssh-server")?;
        let folder = cx.subfolder("ssh")?;
        for name in ["host", "user"] {
            key(&folder.join(name))?;
        }
        std::fs::copy(folder.join("user.pub"), folder.join("authorized"))?;
        // It checks that this exists even where it is not used.
        std::fs::create_dir_all("/run/sshd")?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let config = folder.join("config");
        let folder = folder.display();
        std::fs::write(
            &config,
            format!(
                "Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\n\
                 StrictModes no\nUsePAM no\nPidFile none\nPasswordAuthentication no\nPermitRootLogin yes\nLogLevel ERROR\n"
            ),
        )?;
        let command = Command::new(server).args(["-D", "-e", "-f"]).arg(config);
        let server = Program::start(cx, "sshd", command)?;
        let listens = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        wait::until_true("sshd listens", wait::SOON, listens).await?;
        Ok(Self { port, _server: server })
    }

    /// A connection for each command with either cipher, and one that stays.
    pub(crate) fn ways(&self, cx: &Context) -> Result<Vec<(&'static str, Way)>> {
        let program = binaries::tool("ssh", "openssh-client")?;
        let folder = cx.subfolder("ssh")?;
        let base = [
            "-Fnone".to_owned(),
            format!("-p{}", self.port),
            format!("-i{}", folder.join("user").display()),
            "-oIdentitiesOnly=yes".into(),
            "-oStrictHostKeyChecking=no".into(),
            "-oUserKnownHostsFile=/dev/null".into(),
            "-oLogLevel=ERROR".into(),
            "-oBatchMode=yes".into(),
        ];
        let socket = folder.join("master");
        let way = |more: &[String]| Way::Ssh {
            program: program.clone(),
            arguments: [&base, more, &["127.0.0.1".to_owned()]].concat(),
        };
        let master = [
            "-oControlMaster=auto".to_owned(),
            format!("-oControlPath={}", socket.display()),
        ];
        let kept = [master.as_slice(), &["-oControlPersist=60".into(), format!("-c{AES}")]].concat();
        Ok(vec![
            ("ssh, default cipher", way(&[])),
            ("ssh, AES-256-GCM", way(&[format!("-c{AES}")])),
            ("ssh, AES-256-GCM, ControlMaster", way(&kept)),
        ])
    }
}

fn key(path: &Path) -> Result<()> {
    let status = Blocking::new(binaries::tool("ssh-keygen", "openssh-client")?)
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(path)
        .status()?;
    ensure!(status.success(), "ssh-keygen failed: {status}");
    Ok(())
}
