"""Rule L: into which pieces a query falls apart, one per value of a class of columns that the query itself equates.

A block is *local* in a class when its rows fall into pieces, one per value k, and the piece k depends on no rows of
the changed tables but those whose own column of the class is k. What is found here is for a given set of changed
occurrences; all others stay as they are and may be read whole. Where something is overlooked there are fewer
equalities, so fewer classes; nothing here may assume one too many.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from tidemill.ivm.blocks import SelectBlock, SetBlock, numbers_in, numbers_of, owner_of
from tidemill.ivm.kinds import can_be_key, output_type, type_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tidemill.ivm.blocks import Block, Column, Join, Source, Test

Atom = frozenset["Column"]  # one column, or several whose coalesce is meant
Cuts = "Mapping[int, str]"


@dataclass(frozen=True, slots=True)
class Pieces:
    """One way in which a block falls apart.

    `out` are the output columns that hold the value of the row's piece in every row. `cuts` tells by which column an
    occurrence is cut down to pieces; the changed ones are all in it. `outer` are columns of SELECTs around: the block
    has, for each row there, only the piece of that row's value. `solid` where the value is never NULL.
    """

    type: str
    out: frozenset[str]
    cuts: Mapping[int, str]
    outer: frozenset[Column]
    solid: bool = False


@dataclass(frozen=True, slots=True)
class _Class:
    """The same for joined sources: `alive` hold the value in every row, `weak` are columns that hold it or NULL."""

    type: str
    alive: frozenset[Atom]
    weak: frozenset[Column]
    cuts: Mapping[int, str]
    outer: frozenset[Column]
    solid: bool = False

    def has(self, atom: Atom | None) -> bool:
        if atom is None:
            return False
        known = self.weak | {column for each in self.alive for column in each}
        return atom in self.alive or (atom <= known and any(each <= atom for each in self.alive))

    @property
    def links(self) -> frozenset[Atom]:
        return self.alive | {frozenset({each}) for each in self.outer}

    @property
    def columns(self) -> frozenset[Column]:
        return self.weak | {column for each in self.alive for column in each}


@dataclass(frozen=True, slots=True)
class _Member:
    """Something that is joined: its classes, and whether no changed table is in it."""

    classes: tuple[_Class, ...]
    is_constant: bool


@dataclass(slots=True)
class Locality:
    """Answers for one query and one set of changed occurrences."""

    types: Mapping[int, Mapping[str, str]]
    changed: frozenset[int]
    not_null: frozenset[tuple[int, str]] = frozenset()
    known: dict[int, tuple[Pieces, ...]] = field(default_factory=dict)

    def pieces(self, block: Block) -> tuple[Pieces, ...]:
        if id(block) not in self.known:
            found = self._of_set(block) if isinstance(block, SetBlock) else self._of_select(block)
            self.known[id(block)] = tuple(_distinct(found))
        return self.known[id(block)]

    def is_constant(self, block: Block) -> bool:
        return not numbers_in(block) & self.changed

    # Set operations

    def _of_set(self, block: SetBlock) -> Iterator[Pieces]:
        rights = self._with_any_column(block.right)
        for left in self._with_any_column(block.left):
            for right in rights:
                if left.type == right.type and (joined := self._joined_sides(block, left, right)):
                    yield joined

    def _joined_sides(self, block: SetBlock, left: Pieces, right: Pieces) -> Pieces | None:
        """Rows of both sides meet in all but UNION ALL: there the value has to be at the same place of both."""
        paired = zip(block.left.names, block.right.names, strict=True)
        out = frozenset(mine for mine, other in paired if mine in left.out and other in right.out)
        outer = left.outer & right.outer
        if not out and not outer and not block.is_union_all:
            return None
        if not outer and (left.outer or right.outer):
            return None
        return Pieces(left.type, out, {**left.cuts, **right.cuts}, outer, left.solid and right.solid)

    def _with_any_column(self, block: Block) -> list[Pieces]:
        """Where nothing changes any column may tell pieces apart."""
        found = list(self.pieces(block))
        if self.is_constant(block):
            taken = {name for each in found for name in each.out}
            for name in block.names:
                kind = output_type(block, name, self.types)
                if name not in taken and kind and can_be_key(kind):
                    found.append(Pieces(kind, frozenset({name}), {}, frozenset()))
        return found

    # SELECT

    def _of_select(self, block: SelectBlock) -> Iterator[Pieces]:
        if block.first is None or not self._stays_put(block):
            return
        last = max((n for n, join in enumerate(block.joins) if join.kind in {"right", "full"}), default=-1)
        start = self._padded(block, last) if last >= 0 else self._member(block.first)
        for each in self._combined(block, start, block.joins[last + 1 :], block.where, block.tests):
            if pieces := self._given_out(block, each):
                yield pieces

    def _stays_put(self, block: SelectBlock) -> bool:
        """No query over changed rows decides which rows an outer join pads, or what a generator makes."""
        tests = [each for each in block.tests if each.place in {"outer condition", "generator"}]
        return all(self.is_constant(each.block) for each in tests)

    def _member(self, source: Source) -> _Member:
        if source.number is not None:
            number, columns = source.number, self.types[source.number]
            kinds = {name: type_of(source, name, self.types) for name in columns}
            classes = [
                _Class(
                    kind,
                    frozenset({frozenset({(source, name)})}),
                    frozenset(),
                    {number: name},
                    frozenset(),
                    (number, name) in self.not_null,
                )
                for name, kind in kinds.items()
                if kind and can_be_key(kind)
            ]
            return _Member(tuple(classes), number not in self.changed)
        if source.block is None:
            return _Member((), is_constant=True)
        pieces = self._with_any_column(source.block)
        classes = [
            _Class(
                each.type,
                frozenset(frozenset({(source, name)}) for name in each.out),
                frozenset(),
                each.cuts,
                each.outer,
                each.solid,
            )
            for each in pieces
        ]
        return _Member(tuple(classes), self.is_constant(source.block))

    def _padded(self, block: SelectBlock, last: int) -> _Member:
        """All up to and with the last RIGHT or FULL JOIN: what the joins before have in common, the padding joins."""
        before = block.joins[:last]
        inner = max((n for n, join in enumerate(before) if join.kind in {"right", "full"}), default=-1)
        start = self._padded(block, inner) if inner >= 0 else self._member(block.first)  # type: ignore[arg-type]
        lefts = self._combined(block, start, before[inner + 1 :], (), ())
        numbers = [numbers_of(each) for each in (block.first, *(join.source for join in before)) if each]
        left = _Member(tuple(lefts), not frozenset().union(*numbers) & self.changed)
        join = block.joins[last]
        right = self._member(join.source)
        make = self._right_joined if join.kind == "right" else self._full_joined
        return _Member(tuple(make(left, right, self._equal(block, join.on))), left.is_constant and right.is_constant)

    def _right_joined(self, left: _Member, right: _Member, equal: Sequence[tuple[Atom, Atom]]) -> Iterator[_Class]:
        for kept in right.classes:
            tied = next((each for each in left.classes if _tied(each, kept.links, equal, kept.type)), None)
            if tied:
                weak = kept.weak | tied.columns
                yield _Class(kept.type, kept.alive, weak, {**tied.cuts, **kept.cuts}, kept.outer, kept.solid)
            elif left.is_constant:
                yield kept

    def _full_joined(self, left: _Member, right: _Member, equal: Sequence[tuple[Atom, Atom]]) -> Iterator[_Class]:
        for one in left.classes:
            for other in right.classes:
                if _tied(one, other.alive, equal, other.type) and not (one.outer or other.outer):
                    alive = frozenset(a | b for a in one.alive for b in other.alive)
                    yield _Class(one.type, alive, one.columns | other.columns, {**one.cuts, **other.cuts}, frozenset())

    def _combined(
        self,
        block: SelectBlock,
        start: _Member,
        joins: Sequence[Join],
        where: Sequence[exp.Expr],
        tests: Sequence[Test],
    ) -> Iterator[_Class]:
        """Inner joins in any order, with LEFT JOINs that only add columns to them."""
        members = [start, *(self._member(each.source) for each in joins if each.kind == "inner")]
        conditions = [*where, *(part for each in joins if each.kind == "inner" for part in each.on)]
        padded = {each.source for each in joins if each.kind == "left"}
        groups = self._groups(block, members, self._equal(block, conditions, but=padded), tests)
        for group in groups:
            if (
                (found := self._tied_together(group, members))
                and (found := self._with_left_joins(block, found, joins))
                and (found := self._with_tests(block, found, tests))
            ):
                yield found

    def _groups(
        self, block: SelectBlock, members: list[_Member], equal: Sequence[tuple[Atom, Atom]], tests: Sequence[Test]
    ) -> list[_Group]:
        """Classes of members and columns of SELECTs around, as far as equalities reach."""
        groups = [_Group(each.links, ((n, each),)) for n, one in enumerate(members) for each in one.classes]
        groups += [_Group(frozenset({atom}), ()) for atom in self._outer_atoms(block, equal, tests)]
        groups = _merged_by_atoms(groups)
        for one, other in equal:
            if self._atom_type(groups, one) == self._atom_type(groups, other) is not None:
                touched = [each for each in groups if one in each.atoms or other in each.atoms]
                groups = [each for each in groups if each not in touched] + [_Group.of(touched)]
        return groups

    def _outer_atoms(
        self, block: SelectBlock, equal: Sequence[tuple[Atom, Atom]], tests: Sequence[Test]
    ) -> Iterator[Atom]:
        own = set(block.sources)
        yield from (atom for pair in equal for atom in pair if len(atom) == 1 and not _owners(atom) & own)
        for test in tests:
            for pieces in self.pieces(test.block):
                yield from (frozenset({column}) for column in pieces.outer if column[0] not in own)

    def _atom_type(self, groups: Sequence[_Group], atom: Atom) -> str | None:
        group = next((each for each in groups if atom in each.atoms), None)
        if group is None:
            return None
        if group.members:
            return group.members[0][1].type
        ((source, name),) = next(iter(group.atoms))
        kind = type_of(source, name, self.types)
        return kind if can_be_key(kind) else None

    def _tied_together(self, group: _Group, members: list[_Member]) -> _Class | None:
        """One class of every member that the group reaches; the others must not change."""
        cuts: dict[int, str] = {}
        weak: frozenset[Column] = frozenset()
        solid = False
        for n, member in enumerate(members):
            chosen = max((each for at, each in group.members if at == n), key=lambda each: len(each.cuts), default=None)
            if chosen is None and not member.is_constant:
                return None
            if chosen:
                cuts.update(chosen.cuts)
                weak |= chosen.weak
                solid = solid or chosen.solid
        kind = self._atom_type([group], next(iter(group.atoms))) if group.atoms else group.members[0][1].type
        return _Class(kind, group.atoms, weak, cuts, frozenset(), solid) if kind else None

    def _with_left_joins(self, block: SelectBlock, found: _Class, joins: Sequence[Join]) -> _Class | None:
        """A padded source is cut where its ON ties it to what is kept; otherwise it must not change."""
        reached = found
        for join in joins:
            if join.kind != "left":
                continue
            member = self._member(join.source)
            equal = self._equal(block, join.on)
            tied = next((each for each in member.classes if _tied(each, found.alive, equal, found.type)), None)
            if tied:
                cuts = {**reached.cuts, **tied.cuts}
                reached = replace(reached, weak=reached.weak | tied.columns, cuts=cuts)
            elif not member.is_constant:
                return None
        return reached

    def _with_tests(self, block: SelectBlock, found: _Class, tests: Sequence[Test]) -> _Class | None:
        cuts = dict(found.cuts)
        for test in tests:
            if self.is_constant(test.block):
                continue
            tied = next((each for each in self.pieces(test.block) if self._is_tied(block, found, test, each)), None)
            if tied is None:
                return None
            cuts.update(tied.cuts)
        return replace(found, cuts=cuts)

    def _is_tied(self, block: SelectBlock, found: _Class, test: Test, pieces: Pieces) -> bool:
        """By a column of this SELECT that stands inside; or `x IN (SELECT y …)` with both in the class.

        Where that is not asserted, as in NOT IN, one NULL among the y decides about all rows.
        """
        if pieces.type != found.type:
            return False
        if any(frozenset({each}) in found.alive for each in pieces.outer):
            return True
        if not isinstance(test.node, exp.In) or pieces.outer:
            return False
        if not (test.asserted or (found.solid and pieces.solid)):
            return False
        return test.block.names[0] in pieces.out and self._atom(test.node.this, block) in found.alive

    # What leaves the SELECT

    def _given_out(self, block: SelectBlock, found: _Class) -> Pieces | None:
        own = set(block.sources)
        outer = frozenset(column for atom in found.alive for column in atom if column[0] not in own)
        if not outer and not self._keeps_pieces(block, found):
            return None
        out = [each.alias_or_name for each in block.node.expressions if found.has(self._atom(each.unalias(), block))]
        if block.is_distinct and not outer and not out:
            return None
        return Pieces(found.type, frozenset(out), found.cuts, outer, found.solid)

    def _keeps_pieces(self, block: SelectBlock, found: _Class) -> bool:
        """No group and no window reaches over rows of several pieces."""
        if block.is_aggregate and not any(found.has(self._atom(each, block)) for each in block.keys):
            return False
        partitions = [each.args.get("partition_by") or [] for each in block.windows]
        return all(any(found.has(self._atom(each, block)) for each in parts) for parts in partitions)

    def _equal(
        self, block: SelectBlock, conditions: Iterable[exp.Expr], but: Iterable[Source] = ()
    ) -> list[tuple[Atom, Atom]]:
        """What `=` and `<=>` among the conditions equate, leaving out what touches the sources `but`."""
        barred = set(but)
        found = []
        for each in conditions:
            if isinstance(each, exp.EQ | exp.NullSafeEQ):
                one, other = self._atom(each.left, block), self._atom(each.right, block)
                if one and other and not (_owners(one) | _owners(other)) & barred:
                    found.append((one, other))
        return found

    def _atom(self, node: exp.Expr, block: SelectBlock) -> Atom | None:
        match node:
            case exp.Paren():
                return self._atom(node.this, block)
            case exp.Column():
                return frozenset({(owner_of(node, block), node.name)})
            case exp.Coalesce():
                parts = [self._atom(each, block) for each in (node.this, *node.expressions)]
                return frozenset().union(*(each for each in parts if each)) if all(parts) else None
        return None


@dataclass(frozen=True, slots=True)
class _Group:
    """Columns that are equal in every row, and the classes of members that have one of them."""

    atoms: frozenset[Atom]
    members: tuple[tuple[int, _Class], ...]

    @staticmethod
    def of(groups: Sequence[_Group]) -> _Group:
        atoms = frozenset[Atom]().union(*(each.atoms for each in groups))
        return _Group(atoms, tuple(member for each in groups for member in each.members))


def _merged_by_atoms(groups: Iterable[_Group]) -> list[_Group]:
    merged: list[_Group] = []
    for group in groups:
        touched = [each for each in merged if each.atoms & group.atoms]
        merged = [each for each in merged if each not in touched] + [_Group.of([*touched, group])]
    return merged


def _tied(one: _Class, others: frozenset[Atom], equal: Sequence[tuple[Atom, Atom]], kind: str) -> bool:
    """Whether an equality leads from the class to one of these columns."""
    if one.type != kind:
        return False
    return any((a in one.alive and b in others) or (b in one.alive and a in others) for a, b in equal)


def _owners(atom: Atom) -> set[Source]:
    return {source for source, _ in atom}


def _distinct(found: Iterable[Pieces]) -> Iterator[Pieces]:
    seen = set()
    for each in found:
        key = (each.type, each.out, frozenset(each.cuts.items()), each.outer)
        if key not in seen:
            seen.add(key)
            yield each
