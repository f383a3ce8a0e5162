//! Packages as a person installs them: the real clients, in real sandboxes, against an index that the operator's settings name. The index is a
//! fake on loopback, with packages that are made on the spot; it is the one that the tests of `egress` use.

mod clients;
mod locked;
mod python;
mod rig;
mod rust;

#[path = "../../../../egress/tests/it/packages/parcel.rs"]
#[allow(dead_code, reason = "the tests of `egress` need more of it")]
mod parcel;
#[path = "../../../../egress/tests/it/packages/shelf.rs"]
#[allow(dead_code, reason = "the tests of `egress` need more of it")]
mod shelf;
#[path = "../../../../egress/tests/it/packages/upstream.rs"]
#[allow(dead_code, reason = "the tests of `egress` need more of it")]
mod upstream;
