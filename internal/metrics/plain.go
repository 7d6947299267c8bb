package metrics

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
)

// Plain is a sample as one number with labels, as the text format of Prometheus has it.
type Plain struct {
	Name   string
	Labels []string // names
	Values []string // of Labels
	Value  float64
}

// Brief gives a sample's numbers without a histogram's buckets: one, or a sum and a count.
func (s *Sample) Brief() []Plain {
	if s.Times == nil {
		return []Plain{{s.Name, s.Labels, s.Values, s.Value}}
	}
	return []Plain{{s.Name + "_sum", s.Labels, s.Values, s.Times.Sum},
		{s.Name + "_count", s.Labels, s.Values, float64(s.Times.Count)}}
}

// Plain gives a sample's numbers: one, or those of a histogram, buckets first.
func (s *Sample) Plain() []Plain {
	if s.Times == nil {
		return s.Brief()
	}
	bounds := make([]float64, 0, len(s.Times.Buckets)+1)
	for b := range s.Times.Buckets {
		bounds = append(bounds, b)
	}
	slices.Sort(bounds)
	var all []Plain
	labels := append(slices.Clip(s.Labels), "le")
	for _, b := range append(bounds, math.Inf(1)) {
		n := s.Times.Count
		if !math.IsInf(b, 1) {
			n = s.Times.Buckets[b]
		}
		values := append(slices.Clip(s.Values), float(b))
		all = append(all, Plain{s.Name + "_bucket", labels, values, float64(n)})
	}
	return append(all, s.Brief()...)
}

// Text is the number.
func (p *Plain) Text() string { return float(p.Value) }

func float(v float64) string {
	if math.IsInf(v, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// LabelText is the labels as a JSON object of strings, in their order.
func (p *Plain) LabelText() string {
	b := []byte{'{'}
	for i, name := range p.Labels {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(appendJSON(b, name), ": "...)
		b = appendJSON(b, p.Values[i])
	}
	return string(append(b, '}'))
}

func appendJSON(b []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings can be told
	}
	return append(b, text...)
}
