package embedded

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Version is the PostgreSQL version of the embedded builds.
const Version = "17.11"

// EnvURL names the environment variable that replaces the download's base URL (a mirror of
// a Maven repository). The hashes stay the same (E1).
const EnvURL = "TUTTI_EMBEDDED_URL"

const (
	// defaultURL is the Maven repository the builds are published in.
	defaultURL = "https://repo1.maven.org/maven2"

	mavenPath    = "io/zonky/test/postgres"
	mavenName    = "embedded-postgres-binaries"
	mavenVersion = "17.11.0"
)

// artifact is one published archive: a .jar (zip) that holds one .txz.
type artifact struct {
	platform string // "linux-amd64", as in the artifact's name
	size     int64  // bytes of the .jar
	sha256   string // of the .jar, lower-case hex
}

// artifacts by GOOS/GOARCH. Computed from the published files; see E1.
var artifacts = map[string]artifact{
	"linux/amd64": {"linux-amd64", 14987378,
		"0dd7b72b6f335b8ecfb355fa24c5781e8a93edd09880bb77eb52ebbf29b3e96d"},
	"linux/arm64": {"linux-arm64v8", 14015430,
		"8b042e0ea418b1927d95399207950da0734d27fe01e29503ade3bdc464ad4c2b"},
	"darwin/amd64": {"darwin-amd64", 62141006,
		"d464ff178e9860ba204662ac23fa547504b7fd392392ff2fb92e3fd73b5bdb64"},
	"darwin/arm64": {"darwin-arm64v8", 62141006,
		"a1c2786acb0c398f9b2d76806fc52f5dc8b222cbc8e9383a9b9702084daaf3a5"},
}

// thisArtifact is the archive for the machine this runs on.
func thisArtifact() (artifact, error) {
	key := runtime.GOOS + "/" + runtime.GOARCH
	a, ok := artifacts[key]
	if !ok {
		return artifact{}, fmt.Errorf("there is no embedded build for %s", key)
	}
	return a, nil
}

// url is where the archive is downloaded from.
func (a artifact) url() string {
	base := os.Getenv(EnvURL)
	if base == "" {
		base = defaultURL
	}
	name := mavenName + "-" + a.platform
	return fmt.Sprintf("%s/%s/%s/%s/%s-%s.jar",
		strings.TrimRight(base, "/"), mavenPath, name, mavenVersion, name, mavenVersion)
}

// dirName is the build's directory in the cache. It holds the hash: another archive of the
// same version is another directory.
func (a artifact) dirName() string {
	return fmt.Sprintf("postgresql-%s-%s-%s", mavenVersion, a.platform, a.sha256[:12])
}
