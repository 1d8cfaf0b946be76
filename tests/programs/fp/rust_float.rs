// Rust floating point: shortest decimal text and back, bits of sums, integer
// conversions that saturate, total order, wide integers.
fn main() {
    for v in [0.1, 1.0 / 3.0, 1e23, f64::MAX, f64::MIN_POSITIVE, 5e-324, -0.0, f64::INFINITY, 123_456_789.125] {
        println!("{v} {v:e} {v:?} {:016x}", f64::to_bits(v));
    }
    let mut right = 0;
    let mut state = 1u64;
    for _ in 0..50_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let v = f64::from_bits(state & !(1 << 62));
        right += u32::from(format!("{v:e}").parse::<f64>().is_ok_and(|back| back.to_bits() == v.to_bits()));
    }
    println!("{right} of 50000 survive the shortest text");

    let harmonic: f64 = (1..=1_000_000).map(|i| 1.0 / f64::from(i)).sum();
    let narrow: f32 = (1..=100_000).map(|i| 1.0 / i as f32).sum();
    println!("sums {:016x} {:08x}", harmonic.to_bits(), narrow.to_bits());
    let roots: f64 = (0..100_000).map(|i| f64::from(i).sqrt()).fold(0.0, |a, b| a + b * 0.5);
    println!("roots {:016x}", roots.to_bits());
    println!("fused {:016x}", 0.1f64.mul_add(10.0, -1.0).to_bits());

    println!("{} {} {} {}", 1e300 as i32, -1e300 as i64, f64::NAN as u8, 2.99 as u32);
    println!("{} {} {}", 2.5f64.round(), 2.5f64.round_ties_even(), (-2.5f64).trunc());
    let mut order = [1.0, f64::NAN, -0.0, 0.0, f64::NEG_INFINITY, -1.0];
    order.sort_by(f64::total_cmp);
    println!("{order:?}");
    let wide = (1u128 << 100) / 7 * 3 % 1_000_000_007;
    println!("{wide} {}", (u128::MAX / 3) as f64);
}
