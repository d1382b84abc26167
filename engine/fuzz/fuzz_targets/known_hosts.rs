//! `known_hosts`: any bytes give lines, and every question about them an answer.
#![no_main]

use ferry_engine::ssh::known_hosts::{self, Verdict};
use libfuzzer_sys::fuzz_target;

/// As a key is encoded: its type and 32 bytes.
const KEY: &[u8] = b"\0\0\0\x0bssh-ed25519\0\0\0\x20\x26\x97\x43\xef\x2d\xda\x2e\xae\x39\xe3\x25\x81\x77\x02\xd6\x6e\x27\x94\xd5\xe6\xf3\xf7\xf7\x2e\xef\xf4\x04\x5e\x7f\x4e\x21\xe6";
const ENCODED: &str = "AAAAC3NzaC1lZDI1NTE5AAAAICaXQ+8t2i6uOeMlgXcC1m4nlNXm8/f3Lu/0BF5/TiHm";

fuzz_target!(|text: &[u8]| {
    let lines = known_hosts::parse(text);
    for (host, port) in [("h", 22), ("a.example.org", 22), ("h", 2222), ("::1", 1)] {
        let verdict = known_hosts::verdict(&lines, host, port, KEY);
        let types = known_hosts::known_types(&lines, host, port);
        if let Verdict::Changed(others) = &verdict {
            assert!(!others.is_empty() && others.len() == types.len());
        }
        let revoked = known_hosts::revoked(&lines, host, port, KEY);
        assert!(revoked.is_some() == matches!(verdict, Verdict::Revoked(_)));
        let _ = known_hosts::authorities(&lines, host, port).count();
    }
    // Whatever the file is, a line of its own after it is read.
    let mut longer = text.to_vec();
    longer.extend_from_slice(format!("\n[never.named]:7 ssh-ed25519 {ENCODED}\n").as_bytes());
    assert!(known_hosts::parse(&longer).len() == lines.len() + 1);
});
