"""TPC-H without LIMIT, over a small database of its shape: what RF1 and RF2 (new and deleted orders) ask for."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duck import Rows, Schema

_MONEY = "decimal(15,2)"
SCHEMA: Schema = {
    "region": {"r_regionkey": "bigint", "r_name": "string"},
    "nation": {"n_nationkey": "bigint", "n_name": "string", "n_regionkey": "bigint"},
    "supplier": {
        "s_suppkey": "bigint",
        "s_name": "string",
        "s_address": "string",
        "s_nationkey": "bigint",
        "s_phone": "string",
        "s_acctbal": _MONEY,
        "s_comment": "string",
    },
    "customer": {
        "c_custkey": "bigint",
        "c_name": "string",
        "c_address": "string",
        "c_nationkey": "bigint",
        "c_phone": "string",
        "c_acctbal": _MONEY,
        "c_mktsegment": "string",
        "c_comment": "string",
    },
    "part": {
        "p_partkey": "bigint",
        "p_name": "string",
        "p_mfgr": "string",
        "p_brand": "string",
        "p_type": "string",
        "p_size": "int",
        "p_container": "string",
        "p_retailprice": _MONEY,
    },
    "partsupp": {"ps_partkey": "bigint", "ps_suppkey": "bigint", "ps_availqty": "int", "ps_supplycost": _MONEY},
    "orders": {
        "o_orderkey": "bigint",
        "o_custkey": "bigint",
        "o_orderstatus": "string",
        "o_totalprice": _MONEY,
        "o_orderdate": "date",
        "o_orderpriority": "string",
        "o_shippriority": "int",
        "o_comment": "string",
    },
    "lineitem": {
        "l_orderkey": "bigint",
        "l_partkey": "bigint",
        "l_suppkey": "bigint",
        "l_linenumber": "int",
        "l_quantity": _MONEY,
        "l_extendedprice": _MONEY,
        "l_discount": _MONEY,
        "l_tax": _MONEY,
        "l_returnflag": "string",
        "l_linestatus": "string",
        "l_shipdate": "date",
        "l_commitdate": "date",
        "l_receiptdate": "date",
        "l_shipinstruct": "string",
        "l_shipmode": "string",
    },
}
CHANGED = frozenset({"orders", "lineitem"})

# The name of the rule that comes first, how its rows are found, and a key that one of the rules has.
VERDICTS: dict[int, tuple[str, str, str]] = {
    1: ("summed", "linear", "lineitem"),
    3: ("local", "local", "o_orderkey = l_orderkey"),
    4: ("summed", "local", "o_orderkey = l_orderkey"),
    5: ("summed", "local", "o_orderkey = l_orderkey"),
    6: ("summed", "linear", "lineitem"),
    7: ("summed", "local", "l_orderkey = o_orderkey"),
    8: ("summed", "local", "l_orderkey = o_orderkey"),
    9: ("summed", "local", "l_orderkey = o_orderkey"),
    10: ("summed", "local", "o_orderkey = l_orderkey"),
    12: ("summed", "local", "o_orderkey = l_orderkey"),
    13: ("summed", "local", "c_custkey = o_custkey"),
    14: ("summed", "linear", "lineitem"),
    17: ("summed", "local", "l_partkey = p_partkey"),
    18: ("local", "local", "o_orderkey = l_orderkey"),
    19: ("summed", "linear", "lineitem"),
    20: ("local", "local", "s_suppkey = ps_suppkey = l_suppkey"),
    21: ("summed", "local", "l_orderkey = o_orderkey"),
    22: ("summed", "local", "c_custkey = o_custkey"),
}
REFUSED = {15}
UP_TO_DATE = {2, 11, 16}

QUERIES: dict[int, str] = {
    1: """SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty, sum(l_extendedprice) AS sum_base_price,
        sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
        sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge, avg(l_quantity) AS avg_qty,
        avg(l_extendedprice) AS avg_price, avg(l_discount) AS avg_disc, count(*) AS count_order
        FROM lineitem WHERE l_shipdate <= date '1998-12-01' - interval '90' day
        GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus""",
    2: """SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
        FROM part, supplier, partsupp, nation, region
        WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND p_size = 15 AND p_type LIKE '%BRASS'
        AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'EUROPE'
        AND ps_supplycost = (SELECT min(ps_supplycost) FROM partsupp, supplier, nation, region
            WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND s_nationkey = n_nationkey
            AND n_regionkey = r_regionkey AND r_name = 'EUROPE')""",
    3: """SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
        FROM customer, orders, lineitem WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey
        AND l_orderkey = o_orderkey AND o_orderdate < date '1995-03-15' AND l_shipdate > date '1995-03-15'
        GROUP BY l_orderkey, o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate""",
    4: """SELECT o_orderpriority, count(*) AS order_count FROM orders
        WHERE o_orderdate >= date '1993-07-01' AND o_orderdate < date '1995-10-01'
        AND EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
        GROUP BY o_orderpriority ORDER BY o_orderpriority""",
    5: """SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
        FROM customer, orders, lineitem, supplier, nation, region
        WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey
        AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
        AND r_name = 'ASIA' AND o_orderdate >= date '1993-01-01' GROUP BY n_name ORDER BY revenue DESC""",
    6: """SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem
        WHERE l_shipdate >= date '1994-01-01' AND l_shipdate < date '1995-01-01'
        AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24""",
    7: """SELECT supp_nation, cust_nation, l_year, sum(volume) AS revenue FROM (
        SELECT n1.n_name AS supp_nation, n2.n_name AS cust_nation, year(l_shipdate) AS l_year,
        l_extendedprice * (1 - l_discount) AS volume
        FROM supplier, lineitem, orders, customer, nation n1, nation n2
        WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey AND c_custkey = o_custkey
        AND s_nationkey = n1.n_nationkey AND c_nationkey = n2.n_nationkey
        AND ((n1.n_name = 'FRANCE' AND n2.n_name = 'GERMANY') OR (n1.n_name = 'GERMANY' AND n2.n_name = 'FRANCE'))
        AND l_shipdate BETWEEN date '1993-01-01' AND date '1996-12-31') AS shipping
        GROUP BY supp_nation, cust_nation, l_year ORDER BY supp_nation, cust_nation, l_year""",
    8: """SELECT o_year, sum(CASE WHEN nation = 'BRAZIL' THEN volume ELSE 0 END) / sum(volume) AS mkt_share FROM (
        SELECT year(o_orderdate) AS o_year, l_extendedprice * (1 - l_discount) AS volume, n2.n_name AS nation
        FROM part, supplier, lineitem, orders, customer, nation n1, nation n2, region
        WHERE p_partkey = l_partkey AND s_suppkey = l_suppkey AND l_orderkey = o_orderkey AND o_custkey = c_custkey
        AND c_nationkey = n1.n_nationkey AND n1.n_regionkey = r_regionkey AND r_name = 'AMERICA'
        AND s_nationkey = n2.n_nationkey AND p_type = 'ECONOMY BRASS') AS all_nations
        GROUP BY o_year ORDER BY o_year""",
    9: """SELECT nation, o_year, sum(amount) AS sum_profit FROM (
        SELECT n_name AS nation, year(o_orderdate) AS o_year,
        l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity AS amount
        FROM part, supplier, lineitem, partsupp, orders, nation
        WHERE s_suppkey = l_suppkey AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey AND p_partkey = l_partkey
        AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey AND p_name LIKE '%green%') AS profit
        GROUP BY nation, o_year ORDER BY nation, o_year DESC""",
    10: """SELECT c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) AS revenue, c_acctbal, n_name, c_address,
        c_phone, c_comment FROM customer, orders, lineitem, nation
        WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate >= date '1993-10-01'
        AND o_orderdate < date '1995-01-01' AND l_returnflag = 'R' AND c_nationkey = n_nationkey
        GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment ORDER BY revenue DESC""",
    11: """SELECT ps_partkey, sum(ps_supplycost * ps_availqty) AS value FROM partsupp, supplier, nation
        WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY' GROUP BY ps_partkey
        HAVING sum(ps_supplycost * ps_availqty) > (SELECT sum(ps_supplycost * ps_availqty) * 0.0001
            FROM partsupp, supplier, nation
            WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY')""",
    12: """SELECT l_shipmode,
        sum(CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority = '2-HIGH' THEN 1 ELSE 0 END) AS high_line_count,
        sum(CASE WHEN o_orderpriority <> '1-URGENT' AND o_orderpriority <> '2-HIGH' THEN 1 ELSE 0 END) AS low_line_count
        FROM orders, lineitem WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP')
        AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate AND l_receiptdate >= date '1993-01-01'
        GROUP BY l_shipmode ORDER BY l_shipmode""",
    13: """SELECT c_count, count(*) AS custdist FROM (
        SELECT c_custkey, count(o_orderkey) FROM customer LEFT OUTER JOIN orders
        ON c_custkey = o_custkey AND o_comment NOT LIKE '%special%' GROUP BY c_custkey) AS c_orders (c_custkey, c_count)
        GROUP BY c_count ORDER BY custdist DESC, c_count DESC""",
    14: """SELECT 100.00 * sum(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
        / sum(l_extendedprice * (1 - l_discount)) AS promo_revenue
        FROM lineitem, part WHERE l_partkey = p_partkey AND l_shipdate >= date '1995-01-01'""",
    15: """WITH revenue AS (SELECT l_suppkey AS supplier_no, sum(l_extendedprice * (1 - l_discount)) AS total_revenue
        FROM lineitem WHERE l_shipdate >= date '1995-01-01' GROUP BY l_suppkey)
        SELECT s_suppkey, s_name, s_address, s_phone, total_revenue FROM supplier, revenue
        WHERE s_suppkey = supplier_no AND total_revenue = (SELECT max(total_revenue) FROM revenue)""",
    16: """SELECT p_brand, p_type, p_size, count(DISTINCT ps_suppkey) AS supplier_cnt FROM partsupp, part
        WHERE p_partkey = ps_partkey AND p_brand <> 'Brand#45' AND p_type NOT LIKE 'MEDIUM POLISHED%'
        AND p_size IN (1, 15, 23) AND ps_suppkey NOT IN (
            SELECT s_suppkey FROM supplier WHERE s_comment LIKE '%Customer%Complaints%')
        GROUP BY p_brand, p_type, p_size""",
    17: """SELECT sum(l_extendedprice) / 7.0 AS avg_yearly FROM lineitem, part
        WHERE p_partkey = l_partkey AND p_brand = 'Brand#23' AND p_container = 'MED BOX'
        AND l_quantity < (SELECT 0.7 * avg(l_quantity) FROM lineitem WHERE l_partkey = p_partkey)""",
    18: """SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) AS quantity
        FROM customer, orders, lineitem WHERE o_orderkey IN (
            SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 120)
        AND c_custkey = o_custkey AND o_orderkey = l_orderkey
        GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice ORDER BY o_totalprice DESC, o_orderdate""",
    19: """SELECT sum(l_extendedprice * (1 - l_discount)) AS revenue FROM lineitem, part
        WHERE (p_partkey = l_partkey AND p_brand = 'Brand#12' AND l_quantity BETWEEN 1 AND 31
            AND p_size BETWEEN 1 AND 25 AND l_shipmode IN ('AIR', 'MAIL') AND l_shipinstruct = 'DELIVER IN PERSON')
        OR (p_partkey = l_partkey AND p_brand = 'Brand#23' AND l_quantity BETWEEN 10 AND 40
            AND p_size BETWEEN 1 AND 30 AND l_shipmode IN ('AIR', 'SHIP') AND l_shipinstruct = 'DELIVER IN PERSON')""",
    20: """SELECT s_name, s_address FROM supplier, nation WHERE s_suppkey IN (
            SELECT ps_suppkey FROM partsupp WHERE ps_partkey IN (
                SELECT p_partkey FROM part WHERE p_name LIKE 'dark%' AND p_size = 15)
            AND ps_availqty > (SELECT 0.5 * sum(l_quantity) FROM lineitem
                WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey AND l_shipdate >= date '1994-01-01'))
        AND s_nationkey = n_nationkey AND n_name IN ('BRAZIL', 'FRANCE', 'GERMANY') ORDER BY s_name""",
    21: """SELECT s_name, count(*) AS numwait FROM supplier, lineitem l1, orders, nation
        WHERE s_suppkey = l1.l_suppkey AND o_orderkey = l1.l_orderkey AND o_orderstatus = 'F'
        AND l1.l_receiptdate > l1.l_commitdate
        AND EXISTS (SELECT * FROM lineitem l2 WHERE l2.l_orderkey = l1.l_orderkey AND l2.l_suppkey <> l1.l_suppkey)
        AND NOT EXISTS (SELECT * FROM lineitem l3 WHERE l3.l_orderkey = l1.l_orderkey
            AND l3.l_suppkey <> l1.l_suppkey AND l3.l_receiptdate > l3.l_commitdate)
        AND s_nationkey = n_nationkey AND n_name IN ('BRAZIL', 'FRANCE', 'INDIA')
        GROUP BY s_name ORDER BY numwait DESC, s_name""",
    22: """SELECT cntrycode, count(*) AS numcust, sum(c_acctbal) AS totacctbal FROM (
        SELECT substring(c_phone, 1, 2) AS cntrycode, c_acctbal FROM customer
        WHERE substring(c_phone, 1, 2) IN ('13', '31', '23', '29')
        AND c_acctbal > (SELECT avg(c_acctbal) FROM customer WHERE c_acctbal > 0.00)
        AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)) AS custsale
        GROUP BY cntrycode ORDER BY cntrycode""",
}

_REGIONS = ["AFRICA", "AMERICA", "ASIA", "EUROPE"]
_NATIONS = [("FRANCE", 3), ("GERMANY", 3), ("BRAZIL", 1), ("INDIA", 2), ("JAPAN", 2), ("KENYA", 0), ("CANADA", 1)]
_START = dt.date(1992, 1, 1)
_DAYS = 2500
_CUSTOMERS, _PARTS, _SUPPLIERS = 80, 20, 8


class Database:
    """Rows of all tables, and a stream of orders that come and go."""

    def __init__(self, seed: int, orders: int = 120) -> None:
        self.random = random.Random(seed)
        self.next_order = 1
        self.rows: dict[str, Rows] = {
            "region": list(enumerate(_REGIONS)),
            "nation": [(n, name, region) for n, (name, region) in enumerate(_NATIONS)],
            "supplier": [self._supplier(n) for n in range(_SUPPLIERS)],
            "customer": [self._customer(n) for n in range(_CUSTOMERS)],
            "part": [self._part(n) for n in range(_PARTS)],
            "partsupp": [self._partsupp(p, s) for p in range(_PARTS) for s in range(p % 2, _SUPPLIERS, 2)],
            "orders": [],
            "lineitem": [],
        }
        for _ in range(orders):
            order, lines = self._order()
            self.rows["orders"].append(order)
            self.rows["lineitem"] += lines

    def refresh(self) -> tuple[dict[str, Rows], dict[str, Rows]]:
        """RF1 and RF2: some orders come, others go, with their lines."""
        made = [self._order() for _ in range(self.random.randint(6, 12))]
        gone = self.random.sample(self.rows["orders"], self.random.randint(6, 12))
        keys = {each[0] for each in gone}
        come = {"orders": [order for order, _ in made], "lineitem": [line for _, lines in made for line in lines]}
        go = {"orders": gone, "lineitem": [each for each in self.rows["lineitem"] if each[0] in keys]}
        for table, rows in come.items():
            self.rows[table] = [*(each for each in self.rows[table] if each[0] not in keys), *rows]
        return come, go

    def _money(self, most: int) -> Decimal:
        return Decimal(self.random.randint(0, most * 100)) / 100

    def _day(self) -> dt.date:
        return _START + dt.timedelta(days=self.random.randrange(_DAYS))

    def _supplier(self, n: int) -> tuple[Any, ...]:
        nation = n % len(_NATIONS)
        complaint = "Customer has Complaints" if n == 1 else "fine"
        return (n, f"Supplier#{n}", f"street {n}", nation, f"{nation + 10}-555", self._money(9999), complaint)

    def _customer(self, n: int) -> tuple[Any, ...]:
        phone = f"{self.random.choice([13, 31, 23, 29, 30])}-{n}"
        segment = self.random.choice(["BUILDING", "MACHINERY"])
        return (n, f"Customer#{n}", f"road {n}", n % len(_NATIONS), phone, self._money(9999), segment, "none")

    def _part(self, n: int) -> tuple[Any, ...]:
        name = self.random.choice(["green tea", "red wine", "dark green ink"])
        brand = self.random.choice(["Brand#12", "Brand#23", "Brand#45"])
        kind = self.random.choice(["PROMO BRASS", "ECONOMY BRASS", "MEDIUM POLISHED TIN"])
        return (n, name, "Maker", brand, kind, self.random.choice([1, 15, 23]), "MED BOX", self._money(999))

    def _partsupp(self, part: int, supplier: int) -> tuple[Any, ...]:
        return (part, supplier, self.random.randint(1, 150), self._money(99))

    def _order(self) -> tuple[tuple[Any, ...], Rows]:
        key, day = self.next_order, self._day()
        self.next_order += 1
        customer = self.random.randrange(_CUSTOMERS)
        priority = self.random.choice(["1-URGENT", "2-HIGH", "5-LOW"])
        comment = self.random.choice(["special requests", "as usual"])
        status = self.random.choice("FO")
        order = (key, customer, status, self._money(9999), day, priority, 0, comment)
        return order, [self._line(key, number, day) for number in range(1, self.random.randint(2, 6))]

    def _line(self, key: int, number: int, day: dt.date) -> tuple[Any, ...]:
        part = self.random.randrange(_PARTS)
        supplier = self.random.choice(range(part % 2, _SUPPLIERS, 2))
        ship, commit, receipt = (day + dt.timedelta(days=self.random.randrange(120)) for _ in range(3))
        discount = Decimal(self.random.randint(0, 10)) / 100
        numbers = (Decimal(self.random.randint(1, 50)), self._money(9999), discount, Decimal("0.05"))
        flag, mode = self.random.choice("RAN"), self.random.choice(["AIR", "MAIL", "SHIP"])
        how = self.random.choice(["DELIVER IN PERSON", "NONE"])
        return (key, part, supplier, number, *numbers, flag, self.random.choice("FO"), ship, commit, receipt, how, mode)
