//! Every known and wanted difference from stock 0.171.0, with its reason.

/// What a server does otherwise.
#[derive(Debug)]
pub(super) struct Difference {
    /// `group/case`.
    pub(super) case: &'static str,
    /// The step that records it.
    pub(super) step: usize,
    /// What it records, as JSON.
    pub(super) is: &'static str,
    /// Why this is so, and stays so.
    pub(super) why: &'static str,
}

/// Ours.
pub(super) const DIFFERENCES: &[Difference] = &[
    Difference {
        case: "envelope/frame_of_20_mib",
        step: 0,
        is: r#"{"error":-32601,"id":1}"#,
        why: "a message of up to 64 MiB is taken however it is cut into frames; stock drops a connection for a frame above 16 MiB",
    },
    Difference {
        case: "envelope/numbers",
        step: 0,
        is: r#"{"error":-32600,"id":-1}"#,
        why: "no method takes a number beyond 64-bit floats, so a message with one is refused as a whole",
    },
    Difference {
        case: "envelope/names_that_decoders_use",
        step: 0,
        is: r#"{"error":-32601,"id":1}"#,
        why: "a member of any name is a member; stock's decoder gives this one a meaning",
    },
    Difference {
        case: "envelope/names_that_decoders_use",
        step: 1,
        is: r#"{"error":-32601,"id":1}"#,
        why: "a member of any name is a member; stock's decoder gives this one a meaning",
    },
    Difference {
        case: "envelope/names_that_decoders_use",
        step: 2,
        is: r#"{"error":-32600,"id":-1}"#,
        why: "a document inside a text is no message; stock takes it for one, past its own checks",
    },
    Difference {
        case: "envelope/parameters_as_a_list",
        step: 2,
        is: r#"{"result":{"path":"file:///etc"}}"#,
        why: "parameters by position are not part of the contract; stock counts optional ones, too",
    },
    Difference {
        case: "lifecycle/result",
        step: 0,
        is: r#"{"result":{"environmentInfo":{"capabilities":{"capabilityDiscoverySandbox":"<flag>","environmentConfigRead":"<flag>","fileWriteStreaming":"<flag>","fsWatchMissing":"<flag>","httpHeaderEnvVars":"<flag>","networkProxyLaunch":"<flag>","sandboxedFileStreaming":"<flag>","shellSnapshotV2":"<flag>"},"cwd":"<text>","executorVersion":"<text>","platformOs":"<text>","shell":{"name":"<text>","path":"<text>"},"tempDir":"<text>","temporaryDirectories":["<text>"],"userHomeDir":"<text>"},"sessionId":"<text>"}}"#,
        why: "capabilities that are not there are left out, and there are no provider and helper folders to name",
    },
    Difference {
        case: "lifecycle/info",
        step: 0,
        is: r#"{"result":{"capabilities":{"capabilityDiscoverySandbox":"<flag>","environmentConfigRead":"<flag>","fileWriteStreaming":"<flag>","fsWatchMissing":"<flag>","httpHeaderEnvVars":"<flag>","networkProxyLaunch":"<flag>","sandboxedFileStreaming":"<flag>","shellSnapshotV2":"<flag>"},"cwd":"<text>","executorVersion":"<text>","platformOs":"<text>","shell":{"name":"<text>","path":"<text>"},"tempDir":"<text>","temporaryDirectories":["<text>"],"userHomeDir":"<text>"}}"#,
        why: "as in the result of initialize",
    },
    Difference {
        case: "starts/long_names_of_processes",
        step: 1,
        is: r#"{"error":-32602,"id":"w"}"#,
        why: "4 096 names of writes are remembered for each process, so they are bounded",
    },
    Difference {
        case: "terminals/environment",
        step: 5,
        is: r#"{"closedLast":true,"exit":[0,false]}"#,
        why: "a terminal adds no variable to what was given; stock adds SHELL",
    },
    Difference {
        case: "terminals/directories",
        step: 5,
        is: r#"{"error":-32603}"#,
        why: "a folder that is missing fails the start, as on pipes; stock works in the home directory instead",
    },
    Difference {
        case: "terminals/directories",
        step: 6,
        is: r#"{"error":-32603}"#,
        why: "as a missing folder",
    },
    Difference {
        case: "terminals/programs",
        step: 12,
        is: r#"{"result":{"processId":"r"}}"#,
        why: "a program is looked up as on pipes, where the system has a PATH if none is given",
    },
    Difference {
        case: "terminals/sandboxed_keys",
        step: 3,
        is: r#"{"closedLast":true,"exit":[9,false],"pty":"ready\r\n^Cinterrupted\r\n"}"#,
        why: "Ctrl-C is the program's to handle; in stock's sandbox it ends the sandbox",
    },
    Difference {
        case: "profiles/missing_programs",
        step: 0,
        is: r#"{"error":-32603}"#,
        why: "a program that is missing fails the start, as without a sandbox; stock starts a process that ends with 101",
    },
    Difference {
        case: "profiles/places_of_later_clients",
        step: 1,
        is: r#"{"error":-32600}"#,
        why: "an entry that is not understood may be one that protects; stock leaves it out",
    },
    Difference {
        case: "profiles/places_of_later_clients",
        step: 2,
        is: r#"{"error":-32602}"#,
        why: "as for a call on files",
    },
    Difference {
        case: "profiles/folders_that_are_none",
        step: 1,
        is: r#"{"error":-32602}"#,
        why: "a folder of another system is refused by every call; stock takes it where a call only reads and all may be read",
    },
    Difference {
        case: "profiles/folders_that_are_none",
        step: 4,
        is: r#"{"error":-32602}"#,
        why: "as a working directory of another system",
    },
    Difference {
        case: "profiles/folders_that_are_none",
        step: 5,
        is: r#"{"error":-32602}"#,
        why: "refused as a parameter that cannot be read, as every folder of another system; stock refuses the sandbox",
    },
    Difference {
        case: "managed_network/enforced_without_a_sandbox",
        step: 0,
        is: r#"{"error":-32602}"#,
        why: "what nothing can enforce is refused; stock runs the process with every way open",
    },
    Difference {
        case: "file_trees/copy",
        step: 17,
        is: r#""oneoneone741\n741\n d \n l file\n l tree\ndangling l none\ninner d \ninner/leaf f \ninner/link l leaf\n""#,
        why: "a file that is copied onto itself keeps its content; stock empties it",
    },
    Difference {
        case: "file_writes/bad_blocks",
        step: 15,
        is: r#"{"error":-32004}"#,
        why: "a call that fails at the file closes its handle, whatever that was opened for; stock keeps one for reading",
    },
    Difference {
        case: "file_writes/targets",
        step: 2,
        is: r#"{"error":-32600}"#,
        why: "a FIFO is refused as what it is, by every call",
    },
    Difference {
        case: "file_writes/content_before_the_close",
        step: 3,
        is: r#""old""#,
        why: "replaced content is visible at the close and all at once; stock empties the file when it is opened",
    },
    Difference {
        case: "file_writes/links_that_are_not_followed",
        step: 16,
        is: r#"{"result":{}}"#,
        why: "what is not there need not be removed, links followed or not",
    },
    Difference {
        case: "file_writes/links_that_are_not_followed",
        step: 17,
        is: r#"{"result":{}}"#,
        why: "a tree is removed, links followed or not; stock refuses",
    },
    Difference {
        case: "file_writes/links_that_are_not_followed",
        step: 18,
        is: r#""xyxxdangling\ndoor\nfile\nfolder\nlink\n""#,
        why: "the tree is gone",
    },
    Difference {
        case: "file_writes/links_in_calls_that_list_or_open",
        step: 1,
        is: r#"{"error":-32603}"#,
        why: "a link that must not be followed is not, by any call that has the parameter",
    },
    Difference {
        case: "file_writes/links_in_calls_that_list_or_open",
        step: 2,
        is: r#"{"error":-32603}"#,
        why: "a link that must not be followed is not, by any call that has the parameter",
    },
    Difference {
        case: "requests/packed",
        step: 0,
        is: r#"{"result":{"bodyBase64":"H4sIAAAAAAAC/ytITM5OTQEAELT2IQYAAAA=","headers":[{"name":"content-encoding","value":"gzip"},{"name":"content-length","value":"26"},{"name":"connection","value":"close"}],"status":200}}"#,
        why: "bodies come as the server sent them; whoever asks unpacks, and bounds what that costs",
    },
];

/// Stock 0.145.0: what changed between the releases. Some of it happens only sometimes.
pub(super) const OLD: &[Difference] = &[
    Difference {
        case: "process_state/terminate",
        step: 3,
        is: r#"{"closedLast":true,"exit":[-1,false],"stdout":"ready\n"}"#,
        why: "the exit code of a terminated process was -1",
    },
    Difference {
        case: "process_state/terminate",
        step: 5,
        is: r#"{"result":{"chunks":[],"closed":true,"exitCode":-1,"exited":true,"failure":null,"nextSeq":4,"sandboxDenied":false}}"#,
        why: "the exit code of a terminated process was -1",
    },
    Difference {
        case: "profiles/no_working_directory",
        step: 1,
        is: r#"{"error":-32600}"#,
        why: "the code was another one",
    },
    Difference {
        case: "profiles/no_working_directory",
        step: 2,
        is: r#"{"error":-32600}"#,
        why: "the code was another one",
    },
    Difference {
        case: "profiles/folders_that_are_none",
        step: 1,
        is: r#"{"error":-32600}"#,
        why: "a working directory of another system was refused by every call",
    },
    Difference {
        case: "profiles/folders_that_are_none",
        step: 2,
        is: r#"{"error":-32603}"#,
        why: "a working directory had to exist for every call",
    },
    Difference {
        case: "profiles/folders_that_are_none",
        step: 4,
        is: r#"{"error":-32600}"#,
        why: "as a working directory of another system",
    },
    Difference {
        case: "process_state/terminate_kills_the_group",
        step: 3,
        is: r#"{"closedLast":true,"exit":[-1,false],"stdout":"ready\n"}"#,
        why: "the exit code of a terminated process was -1",
    },
    Difference {
        case: "requests/packed",
        step: 0,
        is: r#"{"result":{"bodyBase64":"H4sIAAAAAAAC/ytITM5OTQEAELT2IQYAAAA=","headers":[{"name":"content-encoding","value":"gzip"},{"name":"content-length","value":"26"},{"name":"connection","value":"close"}],"status":200}}"#,
        why: "bodies were not unpacked",
    },
];
