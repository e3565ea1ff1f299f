//! The colours: the Okabe–Ito palette on a light and on a dark page.
//!
//! A mark names a role, an [`Ink`], never a colour; the theme turns the role into a colour when the picture
//! is written. Where a colour of Okabe and Ito is too pale for a white page, the light theme takes the same
//! hue, darker, so that every line keeps a contrast of 3:1 and every word one of 4.5:1.

/// Which page a picture is drawn for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Theme {
    /// Dark marks on white: the default, and the one for print.
    #[default]
    Light,
    /// Light marks on near-black.
    Dark,
}

/// How many series have a colour of their own; further ones start again, with another dash and marker.
pub(crate) const SERIES: usize = 6;
/// How many steps there are from the palest band to the fullest.
pub(crate) const BANDS: usize = 5;

/// What a mark is drawn in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    /// The page itself: backgrounds, and the halo around lines on bands.
    Surface,
    /// Words, and the truth.
    Text,
    /// Axis numbers and reference lines.
    Muted,
    /// Grid lines; decoration only.
    Grid,
    /// Sample paths, many and thin.
    Faint,
    /// A series, by its place among the others.
    Series(usize),
    /// An opaque tint of the first series, palest at 0.
    Band(usize),
}

impl Ink {
    /// All inks there are, in the order of the style sheet.
    pub(crate) fn all() -> impl Iterator<Item = Ink> {
        [Ink::Surface, Ink::Text, Ink::Muted, Ink::Grid, Ink::Faint]
            .into_iter()
            .chain((0..SERIES).map(Ink::Series))
            .chain((0..BANDS).map(Ink::Band))
    }

    /// The name of the ink as a property of a style sheet.
    pub(crate) fn property(self) -> String {
        match self {
            Ink::Surface => "--surface".into(),
            Ink::Text => "--text".into(),
            Ink::Muted => "--muted".into(),
            Ink::Grid => "--grid".into(),
            Ink::Faint => "--faint".into(),
            Ink::Series(i) => format!("--series{}", i % SERIES),
            Ink::Band(i) => format!("--band{}", i.min(BANDS - 1)),
        }
    }
}

/// Red, green and blue.
pub(crate) type Rgb = [u8; 3];

impl Theme {
    /// The colour of `ink` on this page.
    pub(crate) fn rgb(self, ink: Ink) -> Rgb {
        let [light, dark] = match ink {
            Ink::Surface => [0xffffff, 0x15181c],
            Ink::Text => [0x1b1f24, 0xe8eaed],
            Ink::Muted => [0x59616a, 0xa9b1b9],
            Ink::Grid => [0xe3e6e9, 0x2e343b],
            Ink::Faint => [0x868d94, 0x959ea7],
            Ink::Series(i) => match i % SERIES {
                0 => [0x0072b2, 0x56b4e9], // blue; sky blue
                1 => [0xd55e00, 0xd55e00], // vermillion
                2 => [0x009e73, 0x009e73], // bluish green
                3 => [0xc76ca0, 0xcc79a7], // reddish purple
                4 => [0xa97400, 0xe69f00], // orange, darker on white
                _ => [0x1b1f24, 0xe8eaed], // black; white
            },
            Ink::Band(i) => {
                let share = 0.12 + 0.06 * i.min(BANDS - 1) as f64;
                return mix(self.rgb(Ink::Surface), self.rgb(Ink::Series(0)), share);
            }
        };
        let [_, r, g, b] = u32::to_be_bytes(if self == Theme::Light { light } else { dark });
        [r, g, b]
    }

    /// The colour as a style sheet writes it.
    pub(crate) fn hex(self, ink: Ink) -> String {
        let [r, g, b] = self.rgb(ink);
        format!("#{r:02x}{g:02x}{b:02x}")
    }

    /// All colours as properties of a style sheet: `--text:#…;`.
    pub(crate) fn properties(self) -> String {
        Ink::all().map(|ink| format!("{}:{};", ink.property(), self.hex(ink))).collect()
    }
}

/// `share` of `over`, the rest of `under`.
fn mix(under: Rgb, over: Rgb, share: f64) -> Rgb {
    std::array::from_fn(|i| (f64::from(under[i]) * (1.0 - share) + f64::from(over[i]) * share).round() as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance and contrast as WCAG 2 defines them.
    fn luminance(rgb: Rgb) -> f64 {
        let [r, g, b] = rgb.map(|c| {
            let c = f64::from(c) / 255.0;
            if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * r + 0.7152 * g + 0.0722 * b
    }

    fn contrast(theme: Theme, a: Ink, b: Ink) -> f64 {
        let (a, b) = (luminance(theme.rgb(a)), luminance(theme.rgb(b)));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn lines_have_contrast_three_and_words_four_and_a_half() {
        for theme in [Theme::Light, Theme::Dark] {
            for i in 0..SERIES {
                assert!(contrast(theme, Ink::Series(i), Ink::Surface) >= 3.0, "series {i} on {theme:?}");
            }
            assert!(contrast(theme, Ink::Faint, Ink::Surface) >= 3.0);
            for ink in [Ink::Text, Ink::Muted] {
                assert!(contrast(theme, ink, Ink::Surface) >= 4.5, "{ink:?} on {theme:?}");
            }
        }
    }

    #[test]
    fn truth_and_mean_are_seen_on_the_fullest_band() {
        for theme in [Theme::Light, Theme::Dark] {
            for ink in [Ink::Text, Ink::Series(0)] {
                assert!(contrast(theme, ink, Ink::Band(BANDS - 1)) >= 3.0, "{ink:?} on {theme:?}");
            }
        }
    }

    #[test]
    fn every_ink_has_a_property_of_its_own() {
        let mut names: Vec<_> = Ink::all().map(Ink::property).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
