// Package schema defines the ids, states, domain types and errors of Sluice. It imports only the
// standard library and google/uuid, so that every other package can use it.
//
// Tenant > collection > document > version. Users name a document by its own
// external id, unique in its collection. A version is one content of a
// document; states belong to versions. A version's text is stored as sections;
// passages tile a section. A span is (version, section, start, end) in UTF-8
// bytes of the section's text.
package schema
