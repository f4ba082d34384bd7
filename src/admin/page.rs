//! `/`: the live page, for people. Plain files without a build step, part of the program; what they show they ask of
//! the JSON API beside them. Names from clients are on it, so that browsers are told to run and load nothing else.

use axum::Router;
use axum::http::{HeaderName, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

/// Nothing from anywhere else, nothing inline, in no frame, and no text that becomes markup.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Path, type and text of each file. Links between them are relative, for proxies that put a prefix before them.
const FILES: &[(&str, &str, &str)] = &[
    ("/", HTML, include_str!("page/index.html")),
    ("/page/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
    ("/page/page.css", CSS, include_str!("page/page.css")),
    ("/page/main.js", SCRIPT, include_str!("page/main.js")),
    ("/page/live.js", SCRIPT, include_str!("page/live.js")),
    ("/page/dom.js", SCRIPT, include_str!("page/dom.js")),
    ("/page/format.js", SCRIPT, include_str!("page/format.js")),
    ("/page/charts.js", SCRIPT, include_str!("page/charts.js")),
    ("/page/heat.js", SCRIPT, include_str!("page/heat.js")),
    ("/page/readoff.js", SCRIPT, include_str!("page/readoff.js")),
    ("/page/parts.js", SCRIPT, include_str!("page/parts.js")),
    ("/page/overview.js", SCRIPT, include_str!("page/overview.js")),
    ("/page/shard.js", SCRIPT, include_str!("page/shard.js")),
    ("/page/groups.js", SCRIPT, include_str!("page/groups.js")),
    ("/page/topics.js", SCRIPT, include_str!("page/topics.js")),
];

/// The routes of the page's files, with any state that the rest of the port has.
pub fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    FILES
        .iter()
        .fold(Router::new(), |router, &(path, kind, text)| router.route(path, get(async move || file(kind, text))))
}

fn file(kind: &'static str, text: &'static str) -> Response {
    const HEADERS: [(HeaderName, &str); 5] = [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        // Another version of the gateway may have other files.
        (header::CACHE_CONTROL, "no-cache"),
    ];
    ([(header::CONTENT_TYPE, kind)], HEADERS, text).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_says_what_it_is_and_lets_browsers_load_nothing_from_elsewhere() {
        for &(path, kind, text) in FILES {
            let answer = file(kind, text);
            let header =
                |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
            assert_eq!(header("content-type"), kind, "{path}");
            assert!(header("content-security-policy").starts_with("default-src 'none'; script-src 'self';"), "{path}");
            assert!(header("content-security-policy").contains("frame-ancestors 'none'"), "{path}");
            assert_eq!(
                (header("x-content-type-options"), header("referrer-policy")),
                ("nosniff", "no-referrer"),
                "{path}"
            );
        }
    }

    #[test]
    fn every_file_of_the_directory_is_served_under_its_name_and_no_other() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/admin/page");
        let there: BTreeSet<String> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .map(|name| if name == "index.html" { "/".to_owned() } else { format!("/page/{name}") })
            .collect();
        assert_eq!(there, FILES.iter().map(|(path, ..)| (*path).to_owned()).collect());
    }

    #[test]
    fn no_file_names_an_address_elsewhere_or_makes_markup_of_text() {
        for (path, _, text) in FILES {
            let text = text.replace("http://www.w3.org/2000/svg", "");
            for never in
                ["http://", "https://", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("]
            {
                assert!(!text.contains(never), "{path} has {never}");
            }
        }
    }
}
