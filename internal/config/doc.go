// Package config reads a node's configuration file: TOML, unknown keys are errors, every
// limit is named with its unit and validated.
//
// Neighbours: cmd/tutti loads it, node obeys it. It does no IO beyond reading the file and those that it names.
package config
