//! The files that make up the page.
//!
//! The page requests its files by query, not by path. `?page.css` names the same file whether or not the
//! page's address has a trailing slash; a relative `page.css` would resolve beside the page without one.

/// A file of the page.
#[derive(Debug)]
pub(super) struct Asset {
    /// The query by which the page requests it.
    query: &'static str,
    pub(super) content_type: &'static str,
    pub(super) text: &'static str,
}

const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

static PAGE: Asset = Asset {
    query: "",
    content_type: "text/html; charset=utf-8",
    text: include_str!("page/index.html"),
};

static PARTS: [Asset; 8] = [
    Asset {
        query: "page.css",
        content_type: STYLE,
        text: include_str!("page/page.css"),
    },
    Asset {
        query: "dominion.css",
        content_type: STYLE,
        text: include_str!("page/dominion.css"),
    },
    Asset {
        query: "narrow.css",
        content_type: STYLE,
        text: include_str!("page/narrow.css"),
    },
    Asset {
        query: "icon.svg",
        content_type: "image/svg+xml",
        text: include_str!("page/icon.svg"),
    },
    Asset {
        query: "dom.js",
        content_type: SCRIPT,
        text: include_str!("page/dom.js"),
    },
    Asset {
        query: "chart.js",
        content_type: SCRIPT,
        text: include_str!("page/chart.js"),
    },
    Asset {
        query: "dominion.js",
        content_type: SCRIPT,
        text: include_str!("page/dominion.js"),
    },
    Asset {
        query: "page.js",
        content_type: SCRIPT,
        text: include_str!("page/page.js"),
    },
];

/// The file for this query, or else the page itself.
pub(super) fn find(query: Option<&str>) -> &'static Asset {
    PARTS
        .iter()
        .find(|part| Some(part.query) == query)
        .unwrap_or(&PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_every_file_it_has_and_no_other() {
        let named = PAGE.text.matches("=\"?").count();
        assert_eq!(named, PARTS.len());
        for part in &PARTS {
            assert!(PAGE.text.contains(&format!("=\"?{}\"", part.query)));
            assert!(std::ptr::eq(find(Some(part.query)), part));
        }
    }

    #[test]
    fn no_file_makes_markup_of_text_or_names_another_host() {
        for part in PARTS.iter().chain([&PAGE]) {
            for forbidden in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
            ] {
                assert!(
                    !part.text.contains(forbidden),
                    "{}: {forbidden}",
                    part.query
                );
            }
            let elsewhere = part.text.replace("http://www.w3.org/", "");
            assert!(!elsewhere.contains("://"), "{}", part.query);
        }
    }
}
