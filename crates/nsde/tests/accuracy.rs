//! The bounds of the accuracy table (`docs/accuracy.md`), checked on the same grid.

#[path = "common/accuracy.rs"]
mod accuracy;

use accuracy::{MODES, activations, errors};

#[test]
fn every_activation_and_mode_is_as_accurate_as_documented() {
    for (name, layer, reference) in activations() {
        let all = errors(&layer, reference, 1.0);
        for ((mode, _), e) in MODES.iter().zip(&all) {
            assert!(e.first < 1e-12, "{name} {mode}: mean, variance or Jacobian off by {:e}", e.first);
            let (max, rms) = match *mode {
                // What ReLU reaches with eight terms, every other activation must.
                "series 8" => (2e-3, 8e-5),
                "exact" => (1e-9, 1e-10),
                "paper" => (1.5e-2, 7e-4),
                _ => continue,
            };
            assert!(e.max <= max && e.rms <= rms, "{name} {mode}: max {:e}, rms {:e}", e.max, e.rms);
        }
    }
}
