package capture

import (
	"encoding/hex"
	"strconv"
	"strings"
	"unicode/utf16"
)

// What a member knows of itself is in its process. While it has clients it writes that about once a second to a file in
// PostgreSQL's data directory, where the views tutti.metrics and tutti.conflicts of all its databases read it. So they
// cost no connection and no transaction, and can be joined.

// MetricsFile is the file, below PostgreSQL's data directory, in a folder that base backups leave empty.
const MetricsFile = "pg_stat_tmp/tutti_metrics"

// metricsBytesMax bounds what is read of the file.
const metricsBytesMax = 1 << 26

// AppendMetric adds a number to what goes into the file: its name, its labels as a JSON object, and itself in digits.
// database is whose it is; empty: the process's. What is not ASCII is escaped, as databases have encodings of their
// own.
func AppendMetric(dst []byte, database, name, labels, value string) []byte {
	if database == "" {
		dst = append(dst, '-')
	} else {
		dst = hex.AppendEncode(dst, []byte(database))
	}
	return append(dst, strings.Join([]string{"", name, asciiJSON(labels), value}, "\t")+"\n"...)
}

// asciiJSON is the same JSON without other characters than those of ASCII.
func asciiJSON(text string) string {
	var b []byte
	for _, r := range text {
		switch {
		case r < 0x80:
			b = append(b, byte(r))
		case r < 0x10000:
			b = appendEscape(b, r)
		default:
			high, low := utf16.EncodeRune(r)
			b = appendEscape(appendEscape(b, high), low)
		}
	}
	return string(b)
}

func appendEscape(b []byte, r rune) []byte {
	return append(b, `\u`+strconv.FormatInt(0x10000+int64(r), 16)[1:]...)
}

// metricsSchema has the views and their function. Users may have views of them, so they are never dropped.
func metricsSchema() string {
	return install("metrics.sql", words{"file": MetricsFile, "bytes_max": metricsBytesMax})
}
