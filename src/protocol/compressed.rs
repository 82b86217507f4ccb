//! The compressed member of a checkpoint: base64 of a raw DEFLATE stream (engine.md 3.12.3).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags};

use super::{Code, Fault};

/// A good ratio at a fair speed; the level is no part of the format.
const LEVEL: u8 = 6;

/// Compresses text: base64 in the standard alphabet, padded, without line breaks.
#[must_use]
pub fn deflate(text: &str) -> String {
    STANDARD.encode(compress_to_vec(text.as_bytes(), LEVEL))
}

/// Reverses [`deflate`], whatever compressor wrote it. The output buffer never exceeds `ceiling` bytes; while it grows, its
/// former half may be held beside it.
///
/// # Errors
/// `checkpoint_invalid` for anything but exact base64 of one complete stream of at most `ceiling` bytes of UTF-8.
pub fn inflate(encoded: &str, ceiling: usize) -> Result<String, Fault> {
    let invalid = |message: &'static str| Fault::new(Code::CheckpointInvalid, message);
    let packed = STANDARD.decode(encoded).map_err(|_| invalid("the compressed requests are not base64"))?;
    let bytes = expand(&packed, ceiling).ok_or_else(|| invalid("the compressed requests do not inflate"))?;
    String::from_utf8(bytes).map_err(|_| invalid("the compressed requests are not UTF-8"))
}

/// Inflates into a buffer that doubles up to the ceiling. None for a damaged, unfinished, trailed or longer stream.
fn expand(packed: &[u8], ceiling: usize) -> Option<Vec<u8>> {
    let mut state = Box::<DecompressorOxide>::default();
    // A few times the input is the usual ratio; the ceiling still holds for a stream that claims more.
    let most = ceiling.max(1);
    let mut out = vec![0; packed.len().saturating_mul(4).max(1024).min(most)];
    let (mut read, mut written) = (0, 0);
    loop {
        let flags = inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
        let (status, taken, given) = decompress(&mut state, &packed[read..], &mut out, written, flags);
        read += taken;
        written += given;
        match status {
            TINFLStatus::Done => {
                out.truncate(written);
                return (read == packed.len() && written <= ceiling).then_some(out);
            }
            TINFLStatus::HasMoreOutput if out.len() < ceiling => {
                let longer = out.len().saturating_mul(2).min(ceiling);
                out.resize(longer, 0);
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::limits::MAX_RECEIPT_BYTES;

    fn refused(encoded: &str, ceiling: usize) -> bool {
        inflate(encoded, ceiling).is_err_and(|fault| fault.code() == Code::CheckpointInvalid)
    }

    #[test]
    fn what_was_deflated_inflates_within_its_exact_size_and_not_within_less() {
        for text in ["", "[]", "å∫ç 😀", &"[{\"a\":1}]".repeat(10_000)] {
            let packed = deflate(text);
            assert_eq!(inflate(&packed, text.len()).as_deref(), Ok(text));
            if !text.is_empty() {
                assert!(refused(&packed, text.len() - 1));
            }
        }
    }

    /// Found by fuzzing: any ceiling is a bound, and none a reason to stop the program.
    #[test]
    fn every_ceiling_is_exact() {
        for length in [0, 1, 2, 3, 255, 1023, 1024, 1025, 4096, 100_000] {
            for text in ["0".repeat(length), (0..length).map(|at| char::from(b'a' + (at * at % 23) as u8)).collect()] {
                let packed = deflate(&text);
                for ceiling in (0..length.min(3)).chain(length.saturating_sub(3)..length) {
                    assert!(refused(&packed, ceiling), "{length} bytes within {ceiling}");
                }
                for ceiling in [length, length + 1, 2 * length, MAX_RECEIPT_BYTES] {
                    assert_eq!(inflate(&packed, ceiling).as_deref(), Ok(text.as_str()), "{length} within {ceiling}");
                }
            }
        }
    }

    #[test]
    fn a_bomb_stops_at_the_ceiling() {
        let packed = deflate(&"0".repeat(64 * 1024 * 1024));
        assert!(packed.len() < 200_000);
        assert!(refused(&packed, 1024 * 1024));
    }

    #[test]
    fn other_spellings_of_base64_and_other_streams_are_refused() {
        let packed = deflate("[{\"kind\":\"submit\"}]");
        let bare = packed.trim_end_matches('=').to_owned();
        let mut trailed = STANDARD.decode(&packed).unwrap();
        trailed.push(0);
        let cut = STANDARD.encode(&trailed[..trailed.len() - 3]);
        for damaged in [
            format!("{bare}\n"),
            format!(" {packed}"),
            format!("{packed}===="),
            packed.replacen(&packed[..1], "-", 1),
            STANDARD.encode(trailed),
            cut,
            // A zlib header before the stream.
            STANDARD.encode([0x78, 0x9c, 0x03, 0x00]),
            STANDARD.encode([0xff, 0xff, 0xff]),
            String::new(),
        ] {
            assert!(refused(&damaged, 1024), "{damaged}");
        }
        assert!(packed.ends_with('=') || bare == packed);
        // Bytes that are not UTF-8.
        assert!(refused(&STANDARD.encode(compress_to_vec(&[0xff, 0xfe], LEVEL)), 1024));
    }

    #[test]
    fn stored_blocks_of_other_compressors_are_read() {
        // One final stored block: header 1, length 2, its complement, then the bytes.
        let stored = [1, 2, 0, 0xfd, 0xff, b'[', b']'];
        assert_eq!(inflate(&STANDARD.encode(stored), 64).as_deref(), Ok("[]"));
    }
}
