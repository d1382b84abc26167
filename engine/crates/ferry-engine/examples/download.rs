//! Downloads a URL into a file at no more than a rate, and prints how far it is: `download URL FILE RATE`, with RATE such as 2MB/s.

use ferry_engine::observer::{Observer, Progress};
use ferry_engine::options::{GetOptions, Target};
use ferry_engine::{download, remote::parse_remote};

#[derive(Debug)]
struct Printer;

impl Observer for Printer {
    fn begin(&self, _url: &str, _total: Option<u64>) -> Box<dyn Progress> {
        Box::new(Self)
    }
}

impl Progress for Printer {
    fn total(&self, bytes: u64) {
        println!("{bytes} bytes in all");
    }
    fn moved(&self, bytes: u64) {
        println!("{bytes} bytes");
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, file, rate] = &words[..] else {
        return Err("download URL FILE RATE".into());
    };
    let mut options = GetOptions::new(parse_remote(url)?, Target::File(file.into()));
    options.transfer.limit = Some(rate.parse()?);
    let report = download(&options, &Printer);
    report
        .first_failure()
        .map_or(Ok(()), |failure| Err(failure.clone().into()))
}
