//! Images as data: archives of strangers unpacked safely, and kept by digest.
#![forbid(unsafe_code)]
