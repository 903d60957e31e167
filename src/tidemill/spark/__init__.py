"""The Spark session: Java, jars, start-up archive, the embedded engine. Importing it imports no PySpark."""
