#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]
use std::time::Instant;
use wq_action::engine::{Projection, replay};
use wq_action::protocol::{commit::Commit, json::Scanner, ledger_text::LedgerText};
fn main() {
    let text = std::fs::read("/tmp/l64.jsonl").unwrap();
    for _ in 0..6 {
        let b = text.clone();
        let t = Instant::now();
        let l = LedgerText::new(b).unwrap();
        let t1 = t.elapsed();
        let mut s = Scanner::new("github.com");
        let t = Instant::now();
        let mut n = 0;
        for i in 0..l.len() {
            n += l.commit(&mut s, i).unwrap().operations.len();
        }
        let t2 = t.elapsed();
        let t = Instant::now();
        for i in 0..l.len() {
            n += s.read(&l.line(i).unwrap()).is_ok() as usize;
        }
        let t3 = t.elapsed();
        let commits: Vec<Commit> = (0..l.len()).map(|i| l.commit(&mut s, i).unwrap()).collect();
        let t = Instant::now();
        let mut p = Projection::empty();
        for c in commits {
            p = p.apply(c).unwrap();
        }
        let t4 = t.elapsed();
        let t = Instant::now();
        drop(p);
        let t5 = t.elapsed();
        let t = Instant::now();
        let p = replay(&l, &mut s).unwrap();
        let t6 = t.elapsed();
        drop(p);
        println!("new {:?} decode {:?} scan {:?} apply {:?} drop {:?} replay {:?} {}", t1, t2, t3, t4, t5, t6, n);
    }
}
