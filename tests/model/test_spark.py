from __future__ import annotations

import pytest

from tidemill.model.project import SparkSettings


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        (SparkSettings(), "embedded Spark"),
        (SparkSettings("local"), "embedded Spark"),
        (SparkSettings("local[2]"), "embedded Spark"),
        (SparkSettings("spark://host:7077"), "Spark at spark://host:7077"),
        (SparkSettings("local-cluster[1,1,1024]"), "Spark at local-cluster[1,1,1024]"),
        (SparkSettings(conf={"spark.master": "yarn"}), "Spark at yarn"),
        (SparkSettings(remote="sc://host:15002"), "Spark Connect at sc://host:15002"),
        (SparkSettings(remote="sc://host/;token=geheim;user_id=me"), "Spark Connect at sc://host"),
        (SparkSettings(remote="sc://host:1;token=geheim"), "Spark Connect at sc://host:1"),
    ],
)
def test_a_spark_is_called_what_it_is_without_its_token(settings, shown):
    assert str(settings) == shown


def test_tokens_and_passwords_are_known_as_secrets():
    settings = SparkSettings(remote="sc://host/;token=geheim", conf={"spark.hadoop.fs.s3a.secret.key": "k", "x": "y"})
    assert settings.secrets == {"geheim", "k"}
