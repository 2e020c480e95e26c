package simbackend_test

import (
	"testing"

	"mindrouter/internal/simbackend"
)

// BenchmarkStream measures what a token costs the simulator itself, which a load test has to subtract.
func BenchmarkStream(b *testing.B) {
	for _, c := range stands {
		b.Run(string(c.dialect), func(b *testing.B) {
			s, err := simbackend.New(simbackend.Config{Dialect: c.dialect, RecordLimit: -1})
			if err != nil {
				b.Fatal(err)
			}
			body := chat(c.model, "[[tokens=1000]]", `,"stream":true`)
			b.ReportAllocs()
			for b.Loop() {
				ask(s, "POST", c.path, body)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/token")
		})
	}
}
