"""Which RAPID module a text is: a parser written from the language's description, independent of any emitter."""

from collections.abc import Callable

from excitor.design.programs.languages import rapid_tree as tree
from excitor.design.programs.languages.rapid_words import Reader, tokens

_COMPARE = ("=", "<>", "<", ">", "<=", ">=")
_SECTIONS = ("ERROR", "UNDO", "BACKWARD")


def parse(file: str, text: str) -> tree.Module:
    """Read a module; ProgramError where it is none."""
    return _Parser(file, list(tokens(file, text))).module()


class _Parser(Reader):
    def listed(self, item: Callable[[], tree.Expression]) -> tuple[tree.Expression, ...]:
        found = [item()]
        while self.accept(","):
            found.append(item())
        return tuple(found)

    # ---- declarations

    def module(self) -> tree.Module:
        line = self.next.line
        self.expect("MODULE")
        name = self.name()
        if self.accept("("):
            self.expect("SYSMODULE", "NOSTEPIN", "VIEWONLY", "READONLY", "NOVIEW")
            while self.accept(","):
                self.expect("SYSMODULE", "NOSTEPIN", "VIEWONLY", "READONLY", "NOVIEW")
            self.expect(")")
        records: list[tree.Record] = []
        data: list[tree.Data] = []
        routines: list[tree.Routine] = []
        while not self.accept("ENDMODULE"):
            self.accept("LOCAL", "TASK")
            if self.sees("RECORD"):
                records.append(self.record())
            elif self.sees("CONST", "VAR", "PERS"):
                data.append(self.data())
            elif self.sees("PROC", "FUNC", "TRAP"):
                routines.append(self.routine())
            else:
                self.fail("expected a declaration, a routine or ENDMODULE")
        if self.next.kind != "end":
            self.fail("nothing may follow ENDMODULE")
        return tree.Module(line, name, tuple(records), tuple(data), tuple(routines))

    def record(self) -> tree.Record:
        line = self.next.line
        self.expect("RECORD")
        name, fields = self.name(), []
        while not self.accept("ENDRECORD"):
            kind = self.name()
            fields.append((self.name(), kind))
            self.expect(";")
        return tree.Record(line, name, tuple(fields))

    def data(self) -> tree.Data:
        line = self.next.line
        storage = self.expect("CONST", "VAR", "PERS")
        kind, name = self.name(), self.name()
        sizes: tuple[tree.Expression, ...] = ()
        value = None
        if self.accept("{"):
            sizes = self.listed(self.expression)
            self.expect("}")
        if self.accept(":="):
            value = self.expression()
        elif storage == "CONST":
            self.fail(f"the constant {name} has no value: expected :=")
        self.expect(";")
        return tree.Data(line, storage, kind, name, sizes, value)  # type: ignore[arg-type]

    def routine(self) -> tree.Routine:
        line, kind = self.next.line, self.expect("PROC", "FUNC", "TRAP")
        returns = self.name() if kind == "FUNC" else ""
        name = self.name()
        parameters: tuple[tree.Parameter, ...] = ()
        if kind != "TRAP":
            self.expect("(")
            parameters = () if self.sees(")") else self.parameters()
            self.expect(")")
        data = []
        while self.sees("CONST", "VAR", "PERS"):
            data.append(self.data())
        end = f"END{kind}"
        body, handler = self.block("ERROR", "UNDO", "BACKWARD", end), None
        while not self.accept(end):
            section = self.expect("ERROR", "UNDO", "BACKWARD")
            if section == "ERROR" and self.accept("("):
                self.listed(self.expression)
                self.expect(")")
            block = self.block("ERROR", "UNDO", "BACKWARD", end)
            handler = block if section == "ERROR" else handler
        return tree.Routine(line, kind, name, returns, parameters, tuple(data), body, handler)

    def parameters(self) -> tuple[tree.Parameter, ...]:
        found = [self.parameter()]
        while self.accept(",") or self.sees("\\") or self.accept("|"):
            found.append(self.parameter())
        return tuple(found)

    def parameter(self) -> tree.Parameter:
        line, optional = self.next.line, self.accept("\\") is not None
        mode = self.accept("INOUT", "VAR", "PERS") or ""
        kind, name, rank = self.name(), self.name(), 0
        if self.accept("{"):
            self.expect("*")
            rank = 1
            while self.accept(","):
                self.expect("*")
                rank += 1
            self.expect("}")
        return tree.Parameter(line, kind, name, optional, mode, rank)

    # ---- statements

    def block(self, *ends: str) -> tree.Block:
        found: list[tree.Statement] = []
        while not self.sees(*ends):
            found.append(self.statement(ends))
        return tuple(found)

    def statement(self, ends: tuple[str, ...]) -> tree.Statement:
        line = self.next.line
        makers = {"IF": self.choice, "FOR": self.loop, "WHILE": self.repeat, "TEST": self.test}
        if self.next.kind == "word" and self.next.text in makers:
            self.at += 1
            return makers[self.tokens[self.at - 1].text](line)
        if self.next.kind not in ("name", "late") and not self.sees(
            "RETURN", "RAISE", "RETRY", "TRYNEXT", "EXIT", "GOTO", "CONNECT", "%"
        ):
            self.fail(f"expected a statement or {' or '.join(ends)}")
        if self.next.kind == "name" and self.tokens[self.at + 1].text == ":":
            label = self.name()
            self.expect(":")
            return tree.Unsupported(line, f"the label {label}")
        found = self.simple(line)
        self.expect(";")
        return found

    def simple(self, line: int) -> tree.Statement:
        if word := self.accept("RETRY", "TRYNEXT", "EXIT"):
            return tree.Jump(line, word)
        if word := self.accept("RETURN", "RAISE"):
            return tree.Jump(line, word, None if self.sees(";") else self.expression())
        if self.accept("GOTO"):
            return tree.Unsupported(line, f"GOTO {self.name()}")
        if self.accept("CONNECT"):
            self.path()
            self.expect("WITH")
            return tree.Unsupported(line, f"CONNECT with the trap {self.name()}")
        if self.next.kind == "late" or self.sees("%"):
            while not self.sees(";"):
                self.at += 1
            return tree.Unsupported(line, "a call of a routine whose name is a text")
        start = self.at
        path = self.path()
        if self.accept(":="):
            return tree.Assign(line, path, self.expression())
        self.at = start
        name = self.name()
        if self.accept("("):
            arguments = self.arguments(")")
            self.expect(")")
            return tree.Do(line, name, arguments)
        return tree.Do(line, name, self.arguments(";"))

    def choice(self, line: int) -> tree.Statement:
        condition = self.expression()
        if not self.accept("THEN"):  # compact: one statement
            return tree.If(line, ((condition, (self.statement(()),)),))
        branches: list[tuple[tree.Expression | None, tree.Block]] = []
        while True:
            branches.append((condition, self.block("ELSEIF", "ELSE", "ENDIF")))
            if not self.accept("ELSEIF"):
                break
            condition = self.expression()
            self.expect("THEN")
        if self.accept("ELSE"):
            branches.append((None, self.block("ENDIF")))
        self.expect("ENDIF")
        return tree.If(line, tuple(branches))

    def loop(self, line: int) -> tree.Statement:
        name = self.name()
        self.expect("FROM")
        first = self.expression()
        self.expect("TO")
        last = self.expression()
        step = self.expression() if self.accept("STEP") else None
        self.expect("DO")
        body = self.block("ENDFOR")
        self.expect("ENDFOR")
        return tree.For(line, name, first, last, step, body)

    def repeat(self, line: int) -> tree.Statement:
        condition = self.expression()
        self.expect("DO")
        body = self.block("ENDWHILE")
        self.expect("ENDWHILE")
        return tree.While(line, condition, body)

    def test(self, line: int) -> tree.Statement:
        value = self.expression()
        cases: list[tuple[tuple[tree.Expression, ...] | None, tree.Block]] = []
        while self.accept("CASE"):
            values = self.listed(self.expression)
            self.expect(":")
            cases.append((values, self.block("CASE", "DEFAULT", "ENDTEST")))
        if self.accept("DEFAULT"):
            self.expect(":")
            cases.append((None, self.block("ENDTEST")))
        self.expect("ENDTEST")
        return tree.Test(line, value, tuple(cases))

    # ---- expressions

    def arguments(self, end: str) -> tuple[tree.Argument, ...]:
        """Read arguments: commas part required ones, and may stand before optional ones."""
        found: list[tree.Argument] = []
        while not self.sees(end):
            if found and not self.accept(",") and not self.sees("\\"):
                self.fail(f"expected a comma, \\ or {end}")
            line = self.next.line
            if self.accept("\\"):
                name = self.name()
                found.append(tree.Argument(line, name, self.expression() if self.accept(":=") else None))
            else:
                found.append(tree.Argument(line, None, self.expression()))
        return tuple(found)

    def path(self) -> tree.Path:
        line, parts = self.next.line, [self.part()]
        while self.accept("."):
            parts.append(self.part())
        return tree.Path(line, tuple(parts))

    def part(self) -> tree.Part:
        name = self.name()
        if not self.accept("{"):
            return tree.Part(name)
        indices = self.listed(self.expression)
        self.expect("}")
        return tree.Part(name, indices)

    def expression(self) -> tree.Expression:
        """Join logical terms; NOT takes a whole one, as OR and XOR do."""
        left = self.conjunction()
        while self.sees("OR", "XOR"):
            line, sign = self.next.line, self.expect("OR", "XOR")
            left = tree.Operation(line, sign, left, self.conjunction())
        return left

    def conjunction(self) -> tree.Expression:
        if self.sees("NOT"):
            line = self.next.line
            self.expect("NOT")
            return tree.Operation(line, "NOT", None, self.conjunction())
        return self.chain(("AND",), self.relation)

    def relation(self) -> tree.Expression:
        if self.sees("NOT"):
            line = self.next.line
            self.expect("NOT")
            return tree.Operation(line, "NOT", None, self.relation())
        left = self.sum()
        if self.sees(*_COMPARE):
            line, sign = self.next.line, self.expect(*_COMPARE)
            return tree.Operation(line, sign, left, self.sum())
        return left

    def sum(self) -> tree.Expression:
        return self.chain(("+", "-"), lambda: self.chain(("*", "/", "DIV", "MOD"), self.primary))

    def chain(self, signs: tuple[str, ...], operand: Callable[[], tree.Expression]) -> tree.Expression:
        left = operand()
        while self.sees(*signs):
            line, sign = self.next.line, self.expect(*signs)
            left = tree.Operation(line, sign, left, operand())
        return left

    def primary(self) -> tree.Expression:
        token = self.next
        if self.accept("+", "-"):
            right = self.primary()
            return right if token.text == "+" else tree.Operation(token.line, "-", None, right)
        if token.kind == "number":
            self.at += 1
            hexadecimal = token.text[:2] in ("0x", "0X")
            return tree.Value(token.line, float(int(token.text, 16)) if hexadecimal else float(token.text))
        if token.kind == "string":
            self.at += 1
            return tree.Value(token.line, token.text)
        if self.accept("TRUE", "FALSE"):
            return tree.Value(token.line, token.text == "TRUE")
        if self.accept("("):
            inner = self.expression()
            self.expect(")")
            return inner
        if self.accept("["):
            items = self.listed(self.expression)
            self.expect("]")
            return tree.Aggregate(token.line, items)
        if self.next.kind != "name":
            self.fail("expected a value")
        if self.tokens[self.at + 1].text == "(":
            name = self.name()
            self.expect("(")
            arguments = self.arguments(")")
            self.expect(")")
            return tree.Call(token.line, name, arguments)
        return self.path()
