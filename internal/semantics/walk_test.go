package semantics

import (
	"testing"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// TestWalkMissesNothing: what walk passes over is no message, in whatever kind of node.
func TestWalkMissesNothing(t *testing.T) {
	nodes := (&pg.Node{}).ProtoReflect().Descriptor().Fields()
	chosen := 0
	for i := 0; i < nodes.Len(); i++ {
		d := nodes.Get(i).Message()
		if d == nil || d.Oneofs().Len() == 0 {
			continue
		}
		chosen++
		for j := 0; j < d.Fields().Len(); j++ {
			if f := d.Fields().Get(j); f.Kind() == protoreflect.MessageKind && f.ContainingOneof() == nil {
				t.Errorf("walk does not go into %s", f.FullName())
			}
		}
	}
	if chosen == 0 {
		t.Error("no node has a choice")
	}
	tree, err := pg.Parse("SELECT a, (SELECT b FROM c WHERE d = 'x') FROM e JOIN f ON g < 1.5")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	walk(tree.ProtoReflect(), func(m protoreflect.Message) {
		switch x := m.Interface().(type) {
		case *pg.String:
			names = append(names, x.Sval)
		case *pg.RangeVar:
			names = append(names, x.Relname)
		case *pg.Float:
			names = append(names, x.Fval)
		case *pg.A_Const:
			if s := x.GetSval(); s != nil {
				names = append(names, s.Sval)
			}
		}
	})
	// a literal is seen as a constant, and as its string
	if got, want := len(names), 12; got != want {
		t.Errorf("walk has seen %d of %d names: %q", got, want, names)
	}
}
