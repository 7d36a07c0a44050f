// Package schema is the language of the system.
package schema
