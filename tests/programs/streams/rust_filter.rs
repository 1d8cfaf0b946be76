// A Rust filter: reads the numbered stream from stdin, turns every word's bytes
// around and writes it to stdout; the sums of both go to stderr.
use std::io::{self, BufWriter, Read, Write};

fn fill(input: &mut impl Read, block: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < block.len() {
        match input.read(&mut block[got..])? {
            0 => break,
            n => got += n,
        }
    }
    Ok(got)
}

fn main() -> io::Result<()> {
    let mut input = io::stdin().lock();
    let mut output = BufWriter::with_capacity(200_000, io::stdout().lock());
    let mut block = vec![0u8; 1 << 16];
    let (mut words, mut before, mut after) = (0u64, 0u64, 0u64);
    loop {
        let got = fill(&mut input, &mut block)?;
        for word in block[..got].chunks_exact_mut(8) {
            let value = u64::from_le_bytes(word.as_ref().try_into().unwrap());
            before = before.rotate_left(1) ^ value;
            after = after.rotate_left(1) ^ value.swap_bytes();
            word.copy_from_slice(&value.to_be_bytes());
            words += 1;
        }
        output.write_all(&block[..got])?;
        if got < block.len() {
            break;
        }
    }
    output.flush()?;
    eprintln!("{words} words, {before:016x} in, {after:016x} out");
    Ok(())
}
